// Ops that work index by index. Every attribute enters as an element of its own bits: another value, another result.
#include <vector>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

/// Calls visit(at) for every element of the first result: offsets of the operands in order, then of the results.
/// Operands with fewer dimensions have the last ones.
template <class Visit>
void for_each_element(const OpCall& call, Visit&& visit) {
  std::string letters = dim_letters(call.results[0].region.dims.size());
  IndexLoop loop(letters, call.results[0].region);
  for (const FieldTensor& operand : call.operands)
    loop.follow(operand, last_letters(letters, operand.region.dims.size()));
  for (const FieldTensor& result : call.results) loop.follow(result, letters);
  loop.run([&](const int64_t* at, const int64_t*) { visit(at); });
}

template <class Function>
void map_one(const OpCall& call, Function&& function) {
  const Element* x = call.operands[0].data;
  Element* y = call.results[0].data;
  for_each_element(call, [&](const int64_t* at) { y[at[1]] = function(x[at[0]]); });
}

template <class Function>
void map_two(const OpCall& call, Function&& function) {
  const Element* a = call.operands[0].data;
  const Element* b = call.operands[1].data;
  Element* y = call.results[0].data;
  for_each_element(call, [&](const int64_t* at) { y[at[2]] = function(a[at[0]], b[at[1]]); });
}

Element cube(Element x) { return multiply(multiply(x, x), x); }

/// Of attribute "function": gelu and silu are different polynomials.
Element function_element(const OpCall& call) { return element_of(call.attributes.get_string("function")); }

Element attribute(const OpCall& call, std::string_view name) { return element_of(call.attributes.get_double(name)); }

/// The last operand, where gradients are clipped.
Element coefficient(const OpCall& call) {
  if (!call.attributes.get_bool("has_coefficient")) return 1;
  require_rank(call.operands.back(), 0);
  return call.operands.back().data[0];
}

}  // namespace

void add_function(const OpCall& call) {
  size_t count = call.operands.size();
  for_each_element(call, [&](const int64_t* at) {
    Element sum = 0;
    for (size_t i = 0; i < count; ++i) sum = add(sum, call.operands[i].data[at[i]]);
    call.results[0].data[at[count]] = sum;
  });
}

void subtract_function(const OpCall& call) { map_two(call, subtract); }
void multiply_function(const OpCall& call) { map_two(call, multiply); }

void divide_function(const OpCall& call) {
  map_two(call, [](Element a, Element b) { return multiply(a, inverse(b)); });
}

/// The field has one precision: whether rounding may come before a sum is find_step_flaw's to say.
void cast_function(const OpCall& call) {
  map_one(call, [](Element x) { return x; });
}

void scale_function(const OpCall& call) {
  map_one(call, [factor = attribute(call, "factor")](Element x) { return multiply(factor, x); });
}

/// x^3 + f x + f^2.
void unary_function(const OpCall& call) {
  Element f = function_element(call);
  map_one(call, [f](Element x) { return add(cube(x), multiply(f, add(x, f))); });
}

/// dy (3 x^2 + f).
void unary_grad_function(const OpCall& call) {
  Element f = function_element(call);
  map_two(call, [f](Element dy, Element x) { return multiply(dy, add(multiply(3, multiply(x, x)), f)); });
}

void square_root_function(const OpCall& call) {
  map_one(call, [](Element x) { return add(cube(x), multiply(11, x)); });
}

void clip_coefficient_function(const OpCall& call) {
  Element largest = attribute(call, "max_norm");
  map_one(call, [largest](Element squares) { return add(multiply(largest, squares), multiply(squares, squares)); });
}

/// The "mask" of an index is any element, not 0 or 1: no difference hides behind a 0.
void dropout_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  uint64_t key = hash_of(call.attributes.get_string("stream"), call.seed) ^ attribute(call, "rate");
  std::string letters = dim_letters(y.region.dims.size());
  IndexLoop loop(letters, y.region);
  size_t from = loop.follow(x, letters);
  size_t to = loop.follow(y, letters);
  loop.run([&](const int64_t* at, const int64_t* index) {
    int64_t position = 0;
    for (size_t d = 0; d < y.shape.size(); ++d) position = position * y.shape[d] + index[d];
    Element drawn = element_of_hash(mixed(key ^ mixed(static_cast<uint64_t>(position))));
    y.data[at[to]] = multiply(drawn, x.data[at[from]]);
  });
}

void fill_function(const OpCall& call) {
  Element value = attribute(call, "value");
  for_each_element(call, [&](const int64_t* at) { call.results[0].data[at[0]] = value; });
}

/// m' = b1 m + (1 - b1) g; v' = b2 v + (1 - b2) g^2; w' = (1 - lr decay) w - lr m' (v' + eps), with lr for all that the
/// training step sets.
void adamw_function(const OpCall& call) {
  Element lr = attribute(call, "lr");
  Element beta1 = attribute(call, "beta1");
  Element beta2 = attribute(call, "beta2");
  Element eps = attribute(call, "eps");
  Element decay = subtract(1, multiply(lr, attribute(call, "weight_decay")));
  Element clip = coefficient(call);
  size_t first = call.operands.size();
  for_each_element(call, [&](const int64_t* at) {
    Element g = multiply(clip, call.operands[1].data[at[1]]);
    Element m = add(multiply(beta1, call.operands[2].data[at[2]]), multiply(subtract(1, beta1), g));
    Element v = add(multiply(beta2, call.operands[3].data[at[3]]), multiply(subtract(1, beta2), multiply(g, g)));
    Element w = multiply(decay, call.operands[0].data[at[0]]);
    call.results[0].data[at[first]] = subtract(w, multiply(lr, multiply(m, add(v, eps))));
    call.results[1].data[at[first + 1]] = m;
    call.results[2].data[at[first + 2]] = v;
  });
}

void sgd_function(const OpCall& call) {
  bool keeps_momentum = call.results.size() == 2;
  Element lr = attribute(call, "lr");
  Element momentum = attribute(call, "momentum");
  Element decay = attribute(call, "weight_decay");
  Element clip = coefficient(call);
  size_t first = call.operands.size();
  for_each_element(call, [&](const int64_t* at) {
    Element w = call.operands[0].data[at[0]];
    Element change = add(multiply(clip, call.operands[1].data[at[1]]), multiply(decay, w));
    if (keeps_momentum) {
      change = add(change, multiply(momentum, call.operands[2].data[at[2]]));
      call.results[1].data[at[first + 1]] = change;
    }
    call.results[0].data[at[first]] = subtract(w, multiply(lr, change));
  });
}

}  // namespace tpc::verify

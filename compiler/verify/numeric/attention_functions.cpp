// Attention, its gradient, and the rotation of queries and keys: ops that know positions.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

Element dot(const Element* x, const Element* y, int64_t size) {
  ProductSum sum;
  for (int64_t i = 0; i < size; ++i) sum.add(x[i], y[i]);
  return sum.value();
}

void add_scaled(Element* y, Element factor, const Element* x, int64_t size) {
  for (int64_t i = 0; i < size; ++i) y[i] = add(y[i], multiply(factor, x[i]));
}

/// q[b,s,a,d] and k[b,t,g,d] as a rank holds them: queries may be a part of the positions and heads, keys all
/// positions of their heads.
class QueryWalk {
 public:
  QueryWalk(const OpCall& call, const FieldTensor& q, const FieldTensor& k)
      : q_(q), k_(k), causal_(call.attributes.get_bool("causal")) {
    require_rank(q, 4);
    require_rank(k, 4);
    require_whole(q, 3);
    require_whole(k, 1);
    require_whole(k, 3);
    require_same_range(q, 0, k, 0);
    group_ = q.shape[2] / std::max<int64_t>(1, k.shape[2]);
    if (group_ < 1 || q.shape[2] != group_ * k.shape[2] || q.shape[3] != k.shape[3])
      throw OpFault{fmt::format("has {} query heads and {} key heads", q.shape[2], k.shape[2])};
    const Interval& heads = q.region.dims[2];
    const Interval& kv = k.region.dims[2];
    if (heads.size() > 0 && (kv.begin * group_ > heads.begin || heads.end > kv.end * group_)) {
      throw OpFault{fmt::format("has query heads [{}, {}) and key and value heads [{}, {}), of which each serves {}",
                                heads.begin, heads.end, kv.begin, kv.end, group_)};
    }
  }

  int64_t head_dim() const { return q_.shape[3]; }

  /// Throws unless the tensor has, of its dimensions, the ranges of the queries (keys).
  void require_like_queries(const FieldTensor& tensor) const { require_like(tensor, q_); }
  void require_like_keys(const FieldTensor& tensor) const { require_like(tensor, k_); }

  /// visit(row of queries, first row of keys, rows from key to key, number of keys seen).
  template <class Visit>
  void for_each(Visit&& visit) const {
    int64_t num_keys = k_.shape[1];
    int64_t shift = num_keys - q_.shape[1];
    int64_t kv_heads = k_.region.dims[2].size();
    int64_t row = 0;
    for (int64_t b = 0; b < q_.region.dims[0].size(); ++b) {
      for (int64_t s = q_.region.dims[1].begin; s < q_.region.dims[1].end; ++s) {
        int64_t seen = causal_ ? std::clamp<int64_t>(s + shift + 1, 0, num_keys) : num_keys;
        for (int64_t a = q_.region.dims[2].begin; a < q_.region.dims[2].end; ++a, ++row) {
          int64_t kv_head = a / group_ - k_.region.dims[2].begin;
          visit(row, b * num_keys * kv_heads + kv_head, kv_heads, seen);
        }
      }
    }
  }

 private:
  static void require_like(const FieldTensor& tensor, const FieldTensor& other) {
    if (tensor.region.dims.size() > other.region.dims.size()) require_rank(tensor, other.region.dims.size());
    for (size_t d = 0; d < tensor.region.dims.size(); ++d) require_same_range(tensor, d, other, d);
  }

  const FieldTensor& q_;
  const FieldTensor& k_;
  bool causal_ = false;
  int64_t group_ = 1;
};

}  // namespace

/// With e = E(scale q k'): o = sum over t of e v / l, l = sum of e, which stands for the log-sum-exp.
void attention_function(const OpCall& call) {
  const FieldTensor& q = call.operands[0];
  const FieldTensor& k = call.operands[1];
  const FieldTensor& v = call.operands[2];
  const FieldTensor& o = call.results[0];
  const FieldTensor& l = call.results[1];
  Element scale = element_of(call.attributes.get_double("scale"));
  QueryWalk walk(call, q, k);
  walk.require_like_keys(v);
  require_rank(v, 4);
  require_rank(o, 4);
  require_rank(l, 3);
  walk.require_like_queries(o);
  walk.require_like_queries(l);
  int64_t d = walk.head_dim();
  fill_zeros(o);
  walk.for_each([&](int64_t row, int64_t first_key, int64_t stride, int64_t seen) {
    Element sum = 0;
    for (int64_t t = 0; t < seen; ++t) {
      int64_t key = (first_key + t * stride) * d;
      Element e = exponential(multiply(scale, dot(q.data + row * d, k.data + key, d)));
      sum = add(sum, e);
      add_scaled(o.data + row * d, e, v.data + key, d);
    }
    Element factor = inverse(sum);
    for (int64_t i = 0; i < d; ++i) o.data[row * d + i] = multiply(o.data[row * d + i], factor);
    l.data[row] = sum;
  });
}

/// With p = E(scale q k') / l: dv = p' do, ds = p (do v' - sum over d of do o), dq = scale ds k, dk = scale ds' q.
void attention_grad_function(const OpCall& call) {
  const FieldTensor& grad = call.operands[0];
  const FieldTensor& q = call.operands[1];
  const FieldTensor& k = call.operands[2];
  const FieldTensor& v = call.operands[3];
  const FieldTensor& o = call.operands[4];
  const FieldTensor& l = call.operands[5];
  Element scale = element_of(call.attributes.get_double("scale"));
  QueryWalk walk(call, q, k);
  for (const FieldTensor* tensor : {&grad, &o, static_cast<const FieldTensor*>(&call.results[0])}) {
    require_rank(*tensor, 4);
    walk.require_like_queries(*tensor);
  }
  require_rank(l, 3);
  walk.require_like_queries(l);
  for (const FieldTensor* tensor :
       {&v, static_cast<const FieldTensor*>(&call.results[1]), static_cast<const FieldTensor*>(&call.results[2])}) {
    require_rank(*tensor, 4);
    walk.require_like_keys(*tensor);
  }
  int64_t d = walk.head_dim();
  for (const FieldTensor& result : call.results) fill_zeros(result);
  walk.for_each([&](int64_t row, int64_t first_key, int64_t stride, int64_t seen) {
    const Element* of_o = grad.data + row * d;
    Element factor = inverse(l.data[row]);
    Element grad_dot_o = dot(of_o, o.data + row * d, d);
    for (int64_t t = 0; t < seen; ++t) {
      int64_t key = (first_key + t * stride) * d;
      Element e = exponential(multiply(scale, dot(q.data + row * d, k.data + key, d)));
      Element p = multiply(e, factor);
      Element ds = multiply(scale, multiply(p, subtract(dot(of_o, v.data + key, d), grad_dot_o)));
      add_scaled(call.results[0].data + row * d, ds, k.data + key, d);
      add_scaled(call.results[1].data + key, ds, q.data + row * d, d);
      add_scaled(call.results[2].data + key, p, of_o, d);
    }
  });
}

/// The pairs of the real rotation, each turned by two elements that are made of the position, the pair and the
/// attributes in place of cosine and sine.
void rope_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  require_rank(x, 4);
  require_rank(y, 4);
  require_whole(x, 3);
  require_whole(y, 3);
  int64_t rotary_dim = call.attributes.get_int("rotary_dim");
  if (rotary_dim < 2 || rotary_dim > x.shape[3])
    throw OpFault{fmt::format("turns {} of {} features", rotary_dim, x.shape[3])};
  bool interleaved = call.attributes.get_bool("interleaved");
  uint64_t key = element_of(call.attributes.get_double("theta"));
  key = mixed(key ^ (call.attributes.get_bool("inverse") ? 2U : 0U) ^ (interleaved ? 1U : 0U));
  IndexLoop loop("bsa", {{y.region.dims[0], y.region.dims[1], y.region.dims[2]}});
  loop.within('d', {0, 1});
  loop.follow(x, "bsad");
  loop.follow(y, "bsad");
  loop.run([&](const int64_t* at, const int64_t* index) {
    const Element* from = x.data + at[0];
    Element* to = y.data + at[1];
    for (int64_t i = 0; i < rotary_dim / 2; ++i) {
      uint64_t angle = mixed(mixed(key ^ static_cast<uint64_t>(index[1])) ^ static_cast<uint64_t>(i));
      Element cosine = element_of_hash(angle);
      Element sine = element_of_hash(mixed(angle));
      int64_t first = interleaved ? 2 * i : i;
      int64_t second = interleaved ? 2 * i + 1 : i + rotary_dim / 2;
      to[first] = subtract(multiply(from[first], cosine), multiply(from[second], sine));
      to[second] = add(multiply(from[second], cosine), multiply(from[first], sine));
    }
    for (int64_t i = rotary_dim / 2 * 2; i < x.shape[3]; ++i) to[i] = from[i];
  });
}

}  // namespace tpc::verify

// Ops that mix the last dimension: softmax and the norms. Averages are sums here, for the size is no part of what is
// asked; epsilon enters as an element of its bits.
#include <vector>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

/// Rows of the tensors of one op: calls visit(at), the offset in each tensor of its row's first element.
class Rows {
 public:
  /// `rows` has the dimensions of a row's index and perhaps others.
  Rows(const Region& rows, size_t num_dims) : letters_(dim_letters(num_dims)) {
    for (size_t d = 0; d < num_dims; ++d) loop_.over(letters_[d], rows.dims[d]);
    loop_.within('z', {0, 1});
  }

  /// A tensor [rows..., z], all of z.
  void follow_rows(const FieldTensor& tensor) {
    require_rank(tensor, letters_.size() + 1);
    require_whole(tensor, letters_.size());
    loop_.follow(tensor, letters_ + "z");
  }
  /// A tensor [rows...].
  void follow_statistic(const FieldTensor& tensor) { loop_.follow(tensor, letters_); }

  template <class Visit>
  void run(Visit&& visit) const {
    loop_.run([&](const int64_t* at, const int64_t*) { visit(at); });
  }

 private:
  std::string letters_;
  IndexLoop loop_;
};

void require_some_dims(const FieldTensor& tensor) {
  if (tensor.shape.empty()) throw OpFault{"needs a last dimension"};
}

int64_t row_size(const FieldTensor& tensor) { return tensor.shape.back(); }

/// A vector over the row's dimension, all of it.
const Element* per_feature(const FieldTensor& vector) {
  require_rank(vector, 1);
  require_whole(vector, 0);
  return vector.data;
}

}  // namespace

void softmax_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  require_some_dims(y);
  Rows rows(y.region, y.shape.size() - 1);
  rows.follow_rows(x);
  rows.follow_rows(y);
  rows.run([&](const int64_t* at) {
    Element sum = 0;
    for (int64_t i = 0; i < row_size(x); ++i) sum = add(sum, exponential(x.data[at[0] + i]));
    Element scale = inverse(sum);
    for (int64_t i = 0; i < row_size(x); ++i) y.data[at[1] + i] = multiply(exponential(x.data[at[0] + i]), scale);
  });
}

void softmax_grad_function(const OpCall& call) {
  const FieldTensor& dy = call.operands[0];
  const FieldTensor& y = call.operands[1];
  const FieldTensor& dx = call.results[0];
  require_some_dims(dx);
  Rows rows(dx.region, dx.shape.size() - 1);
  for (const FieldTensor* tensor : {&dy, &y, &dx}) rows.follow_rows(*tensor);
  rows.run([&](const int64_t* at) {
    ProductSum dot;
    for (int64_t i = 0; i < row_size(dx); ++i) dot.add(dy.data[at[0] + i], y.data[at[1] + i]);
    for (int64_t i = 0; i < row_size(dx); ++i)
      dx.data[at[2] + i] = multiply(y.data[at[1] + i], subtract(dy.data[at[0] + i], dot.value()));
  });
}

/// mean = sum x, rstd = 1 / (eps + sum x^2), y = (x - mean) rstd gain + bias.
void layer_norm_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const Element* gain = per_feature(call.operands[1]);
  const Element* bias = per_feature(call.operands[2]);
  const FieldTensor& y = call.results[0];
  Element eps = element_of(call.attributes.get_double("eps"));
  require_some_dims(y);
  Rows rows(y.region, y.shape.size() - 1);
  rows.follow_rows(x);
  rows.follow_rows(y);
  rows.follow_statistic(call.results[1]);
  rows.follow_statistic(call.results[2]);
  rows.run([&](const int64_t* at) {
    Element mean = 0;
    ProductSum squares;
    for (int64_t i = 0; i < row_size(x); ++i) {
      Element value = x.data[at[0] + i];
      mean = add(mean, value);
      squares.add(value, value);
    }
    Element rstd = inverse(add(eps, squares.value()));
    for (int64_t i = 0; i < row_size(x); ++i) {
      Element normalized = multiply(subtract(x.data[at[0] + i], mean), rstd);
      y.data[at[1] + i] = add(multiply(normalized, gain[i]), bias[i]);
    }
    call.results[1].data[at[2]] = mean;
    call.results[2].data[at[3]] = rstd;
  });
}

/// With n = (x - mean) rstd and g = dy gain: dx = rstd (g - sum g - n sum g n), dgain = sum over rows of dy n, dbias =
/// sum over rows of dy.
void layer_norm_grad_function(const OpCall& call) {
  const FieldTensor& dy = call.operands[0];
  const FieldTensor& x = call.operands[1];
  const Element* gain = per_feature(call.operands[4]);
  const FieldTensor& dx = call.results[0];
  const FieldTensor& dgain = call.results[1];
  const FieldTensor& dbias = call.results[2];
  per_feature(dgain);
  per_feature(dbias);
  fill_zeros(dgain);
  fill_zeros(dbias);
  require_some_dims(dx);
  Rows rows(dx.region, dx.shape.size() - 1);
  for (const FieldTensor* tensor : {&dy, &x, &dx}) rows.follow_rows(*tensor);
  rows.follow_statistic(call.operands[2]);
  rows.follow_statistic(call.operands[3]);
  rows.run([&](const int64_t* at) {
    Element mean = call.operands[2].data[at[3]];
    Element rstd = call.operands[3].data[at[4]];
    Element sum_g = 0;
    ProductSum sum_gn;
    auto normalized = [&](int64_t i) { return multiply(subtract(x.data[at[1] + i], mean), rstd); };
    auto g = [&](int64_t i) { return multiply(dy.data[at[0] + i], gain[i]); };
    for (int64_t i = 0; i < row_size(dx); ++i) {
      sum_g = add(sum_g, g(i));
      sum_gn.add(g(i), normalized(i));
      dgain.data[i] = add(dgain.data[i], multiply(dy.data[at[0] + i], normalized(i)));
      dbias.data[i] = add(dbias.data[i], dy.data[at[0] + i]);
    }
    for (int64_t i = 0; i < row_size(dx); ++i) {
      Element inner = subtract(subtract(g(i), sum_g), multiply(normalized(i), sum_gn.value()));
      dx.data[at[2] + i] = multiply(rstd, inner);
    }
  });
}

/// rstd = 1 / (eps + sum x^2), y = x rstd gain.
void rms_norm_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const Element* gain = per_feature(call.operands[1]);
  const FieldTensor& y = call.results[0];
  Element eps = element_of(call.attributes.get_double("eps"));
  require_some_dims(y);
  Rows rows(y.region, y.shape.size() - 1);
  rows.follow_rows(x);
  rows.follow_rows(y);
  rows.follow_statistic(call.results[1]);
  rows.run([&](const int64_t* at) {
    ProductSum squares;
    for (int64_t i = 0; i < row_size(x); ++i) squares.add(x.data[at[0] + i], x.data[at[0] + i]);
    Element rstd = inverse(add(eps, squares.value()));
    for (int64_t i = 0; i < row_size(x); ++i) y.data[at[1] + i] = multiply(multiply(x.data[at[0] + i], rstd), gain[i]);
    call.results[1].data[at[2]] = rstd;
  });
}

/// With n = x rstd and g = dy gain: dx = rstd (g - n sum g n), dgain = sum over rows of dy n.
void rms_norm_grad_function(const OpCall& call) {
  const FieldTensor& dy = call.operands[0];
  const FieldTensor& x = call.operands[1];
  const Element* gain = per_feature(call.operands[3]);
  const FieldTensor& dx = call.results[0];
  const FieldTensor& dgain = call.results[1];
  per_feature(dgain);
  fill_zeros(dgain);
  require_some_dims(dx);
  Rows rows(dx.region, dx.shape.size() - 1);
  for (const FieldTensor* tensor : {&dy, &x, &dx}) rows.follow_rows(*tensor);
  rows.follow_statistic(call.operands[2]);
  rows.run([&](const int64_t* at) {
    Element rstd = call.operands[2].data[at[3]];
    ProductSum sum_gn;
    auto normalized = [&](int64_t i) { return multiply(x.data[at[1] + i], rstd); };
    auto g = [&](int64_t i) { return multiply(dy.data[at[0] + i], gain[i]); };
    for (int64_t i = 0; i < row_size(dx); ++i) {
      sum_gn.add(g(i), normalized(i));
      dgain.data[i] = add(dgain.data[i], multiply(dy.data[at[0] + i], normalized(i)));
    }
    for (int64_t i = 0; i < row_size(dx); ++i)
      dx.data[at[2] + i] = multiply(rstd, subtract(g(i), multiply(normalized(i), sum_gn.value())));
  });
}

}  // namespace tpc::verify

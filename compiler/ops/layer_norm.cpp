// Layer normalisation over the last dimension (Ba, Kiros, Hinton 2016), and its gradient.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/core/check.h"
#include "compiler/ops/elementwise.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

// x.shape without the normalised dimension.
TensorType row_statistic_type(const TensorType& x) { return {DType::kF32, Shape(x.shape.begin(), x.shape.end() - 1)}; }

void require_per_feature(const TensorType& vector, const TensorType& x, std::string_view what) {
  require_float(vector, what);
  require_shape(vector, {x.shape.back()}, what, "the last dimension of the input");
}

std::vector<TensorType> infer_types(const OpQuery& query) {
  const TensorType& x = query.operands[0];
  require_float(x, "input");
  require_min_rank(x, 1, "input");
  require_per_feature(query.operands[1], x, "gain");
  require_per_feature(query.operands[2], x, "bias");
  TensorType statistic = row_statistic_type(x);
  return {x, statistic, statistic};
}

void gradient(GradBuilder& builder) {
  TPC_CHECK(!builder.grad_of_result(1).is_valid() && !builder.grad_of_result(2).is_valid(),
            "mean and rstd of layer_norm are kept for its own gradient only");
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  std::vector<ValueId> grads = builder.emit(
      OpKind::kLayerNormGrad, {dy, builder.operand(0), builder.result(1), builder.result(2), builder.operand(1)});
  for (size_t i = 0; i < grads.size(); ++i) {
    if (builder.needs_grad(i)) builder.set_grad(i, grads[i]);
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  std::string rows = dim_letters(query.operands[0].shape.size() - 1);
  return ShardingRule::einsum(fmt::format("{0}z,z,z->{0}z,{0},{0}", rows), "z");
}

void reference(const ReferenceArgs& args) {
  const double eps = args.attributes.get_double("eps");
  const double* gain = args.operands[1].data;
  const double* bias = args.operands[2].data;
  const int64_t h = args.operands[0].type.shape.back();
  const int64_t rows = args.results[1].region.num_elements();
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = args.operands[0].data + row * h;
    double* y = args.results[0].data + row * h;
    double mean = 0;
    for (int64_t i = 0; i < h; ++i) mean += x[i];
    mean /= static_cast<double>(h);
    double variance = 0;
    for (int64_t i = 0; i < h; ++i) variance += (x[i] - mean) * (x[i] - mean);
    double rstd = 1 / std::sqrt(variance / static_cast<double>(h) + eps);
    for (int64_t i = 0; i < h; ++i) y[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
    args.results[1].data[row] = mean;
    args.results[2].data[row] = rstd;
  }
}

std::vector<TensorType> infer_grad_types(const OpQuery& query) {
  const TensorType& x = query.operands[1];
  require_float(x, "input");
  require_min_rank(x, 1, "input");
  require_float_like(query.operands[0], x, "gradient");
  require_shape(query.operands[0], x.shape, "gradient", "input");
  require_f32(query.operands[2], "mean");
  require_shape(query.operands[2], row_statistic_type(x).shape, "mean", "the rows of the input");
  require_f32(query.operands[3], "rstd");
  require_shape(query.operands[3], row_statistic_type(x).shape, "rstd", "the rows of the input");
  require_per_feature(query.operands[4], x, "gain");
  TensorType per_feature{DType::kF32, query.operands[4].shape};
  return {x, per_feature, per_feature};
}

ShardingRule grad_sharding_rule(const OpQuery& query) {
  std::string rows = dim_letters(query.operands[1].shape.size() - 1);
  return ShardingRule::einsum(fmt::format("{0}z,{0}z,{0},{0},z->{0}z,z,z", rows), "z").linear_jointly({0});
}

// With n = (x - mean) * rstd and g = dy * gain:
// dx = rstd * (g - avg(g) - n * avg(g * n)), dgain = sum over rows of dy * n, dbias = sum over rows of dy.
void grad_reference(const ReferenceArgs& args) {
  const double* gain = args.operands[4].data;
  const int64_t h = args.operands[1].type.shape.back();
  const int64_t rows = args.operands[2].region.num_elements();
  double* dgain = args.results[1].data;
  double* dbias = args.results[2].data;
  std::fill_n(dgain, h, 0.0);
  std::fill_n(dbias, h, 0.0);
  for (int64_t row = 0; row < rows; ++row) {
    const double* dy = args.operands[0].data + row * h;
    const double* x = args.operands[1].data + row * h;
    double* dx = args.results[0].data + row * h;
    const double mean = args.operands[2].data[row];
    const double rstd = args.operands[3].data[row];
    double average_g = 0;
    double average_gn = 0;
    for (int64_t i = 0; i < h; ++i) {
      double normalized = (x[i] - mean) * rstd;
      average_g += dy[i] * gain[i] / static_cast<double>(h);
      average_gn += dy[i] * gain[i] * normalized / static_cast<double>(h);
      dgain[i] += dy[i] * normalized;
      dbias[i] += dy[i];
    }
    for (int64_t i = 0; i < h; ++i) {
      double normalized = (x[i] - mean) * rstd;
      dx[i] = rstd * (dy[i] * gain[i] - average_g - normalized * average_gn);
    }
  }
}

}  // namespace

const OpDef kLayerNormOp = {
    .kind = OpKind::kLayerNorm,
    .name = "layer_norm",
    .summary =
        "mean, rstd = statistics over the last dimension; y[..., h] = (x[..., h] - mean) * rstd * gain[h] + bias[h], "
        "rstd = 1 / sqrt(variance + eps)",
    .min_operands = 3,
    .max_operands = 3,
    .num_results = 3,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<8>,
    .reference = reference,
    .floats = {{FloatRole::kData, FloatRole::kAny, FloatRole::kAny}, {FloatRole::kData, FloatRole::kFull}},
};

const OpDef kLayerNormGradOp = {
    .kind = OpKind::kLayerNormGrad,
    .name = "layer_norm_grad",
    .summary =
        "with n = (x - mean) * rstd, g = dy * gain: dx = rstd * (g - avg(g) - n * avg(g * n)), "
        "dgain[h] = sum dy * n, dbias[h] = sum dy",
    .min_operands = 5,
    .max_operands = 5,
    .num_results = 3,
    .infer_types = infer_grad_types,
    .gradient = nullptr,
    .sharding_rule = grad_sharding_rule,
    .cost = elementwise_cost<14>,
    .reference = grad_reference,
    .floats = {{FloatRole::kData, FloatRole::kData, FloatRole::kFull, FloatRole::kFull, FloatRole::kAny},
               {FloatRole::kData, FloatRole::kFull}},
};

}  // namespace tpc

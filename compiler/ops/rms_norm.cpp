// Root-mean-square normalisation over the last dimension (Zhang, Sennrich 2019), and its gradient.
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
  return {x, row_statistic_type(x)};
}

void gradient(GradBuilder& builder) {
  TPC_CHECK(!builder.grad_of_result(1).is_valid(), "rstd of rms_norm is kept for its own gradient only");
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  std::vector<ValueId> grads =
      builder.emit(OpKind::kRmsNormGrad, {dy, builder.operand(0), builder.result(1), builder.operand(1)});
  for (size_t i = 0; i < grads.size(); ++i) {
    if (builder.needs_grad(i)) builder.set_grad(i, grads[i]);
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  std::string rows = dim_letters(query.operands[0].shape.size() - 1);
  return ShardingRule::einsum(fmt::format("{0}z,z->{0}z,{0}", rows), "z");
}

void reference(const ReferenceArgs& args) {
  const double eps = args.attributes.get_double("eps");
  const double* gain = args.operands[1].data;
  const int64_t h = args.operands[0].type.shape.back();
  const int64_t rows = args.results[1].region.num_elements();
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = args.operands[0].data + row * h;
    double* y = args.results[0].data + row * h;
    double square = 0;
    for (int64_t i = 0; i < h; ++i) square += x[i] * x[i];
    double rstd = 1 / std::sqrt(square / static_cast<double>(h) + eps);
    for (int64_t i = 0; i < h; ++i) y[i] = x[i] * rstd * gain[i];
    args.results[1].data[row] = rstd;
  }
}

std::vector<TensorType> infer_grad_types(const OpQuery& query) {
  const TensorType& x = query.operands[1];
  require_float(x, "input");
  require_min_rank(x, 1, "input");
  require_float_like(query.operands[0], x, "gradient");
  require_shape(query.operands[0], x.shape, "gradient", "input");
  require_f32(query.operands[2], "rstd");
  require_shape(query.operands[2], row_statistic_type(x).shape, "rstd", "the rows of the input");
  require_per_feature(query.operands[3], x, "gain");
  return {x, {DType::kF32, query.operands[3].shape}};
}

ShardingRule grad_sharding_rule(const OpQuery& query) {
  std::string rows = dim_letters(query.operands[1].shape.size() - 1);
  return ShardingRule::einsum(fmt::format("{0}z,{0}z,{0},z->{0}z,z", rows), "z").linear_jointly({0});
}

// With n = x * rstd and g = dy * gain: dx = rstd * (g - n * avg(g * n)), dgain = sum over rows of dy * n.
void grad_reference(const ReferenceArgs& args) {
  const double* gain = args.operands[3].data;
  const int64_t h = args.operands[1].type.shape.back();
  const int64_t rows = args.operands[2].region.num_elements();
  double* dgain = args.results[1].data;
  std::fill_n(dgain, h, 0.0);
  for (int64_t row = 0; row < rows; ++row) {
    const double* dy = args.operands[0].data + row * h;
    const double* x = args.operands[1].data + row * h;
    double* dx = args.results[0].data + row * h;
    const double rstd = args.operands[2].data[row];
    double average_gn = 0;
    for (int64_t i = 0; i < h; ++i) {
      double normalized = x[i] * rstd;
      average_gn += dy[i] * gain[i] * normalized / static_cast<double>(h);
      dgain[i] += dy[i] * normalized;
    }
    for (int64_t i = 0; i < h; ++i) dx[i] = rstd * (dy[i] * gain[i] - x[i] * rstd * average_gn);
  }
}

}  // namespace

const OpDef kRmsNormOp = {
    .kind = OpKind::kRmsNorm,
    .name = "rms_norm",
    .summary = "y[..., h] = x[..., h] * rstd * gain[h], rstd = 1 / sqrt(mean over h of x^2 + eps)",
    .min_operands = 2,
    .max_operands = 2,
    .num_results = 2,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<4>,
    .reference = reference,
    .floats = {{FloatRole::kData, FloatRole::kAny}, {FloatRole::kData, FloatRole::kFull}},
};

const OpDef kRmsNormGradOp = {
    .kind = OpKind::kRmsNormGrad,
    .name = "rms_norm_grad",
    .summary = "with n = x * rstd, g = dy * gain: dx = rstd * (g - n * avg(g * n)), dgain[h] = sum dy * n",
    .min_operands = 4,
    .max_operands = 4,
    .num_results = 2,
    .infer_types = infer_grad_types,
    .gradient = nullptr,
    .sharding_rule = grad_sharding_rule,
    .cost = elementwise_cost<10>,
    .reference = grad_reference,
    .floats = {{FloatRole::kData, FloatRole::kData, FloatRole::kFull, FloatRole::kAny},
               {FloatRole::kData, FloatRole::kFull}},
};

}  // namespace tpc

// Softmax over the last dimension, and its gradient.
#include <algorithm>
#include <cmath>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_softmax(const OpQuery& query) {
  require_float(query.operands[0], "input");
  require_min_rank(query.operands[0], 1, "input");
  return {query.operands[0]};
}

std::vector<TensorType> infer_softmax_grad(const OpQuery& query) {
  require_float(query.operands[0], "dy");
  require_float_like(query.operands[1], query.operands[0], "y");
  require_min_rank(query.operands[1], 1, "y");
  require_shape(query.operands[0], query.operands[1].shape, "dy", "the shape of y");
  return {query.operands[0]};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  builder.set_grad(0, builder.emit_one(OpKind::kSoftmaxGrad, {dy, builder.result(0)}));
}

ShardingRule softmax_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.operands[0].shape.size());
  return ShardingRule::einsum(letters + "->" + letters, letters.substr(letters.size() - 1));
}

ShardingRule softmax_grad_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.operands[0].shape.size());
  ShardingRule rule =
      ShardingRule::einsum(letters + "," + letters + "->" + letters, letters.substr(letters.size() - 1));
  rule.linear_jointly({0});
  return rule;
}

// Calls visit(offsets of row starts, row length) for every row; all tensors of the op have the same region, whose rows
// are whole.
template <class Visit>
void for_each_row(const ReferenceArgs& args, Visit&& visit) {
  Region rows = args.results[0].region;
  int64_t length = rows.dims.back().size();
  rows.dims.back().end = rows.dims.back().begin + 1;
  std::vector<IndexMap> maps;
  for (const ReferenceTensor& operand : args.operands) maps.push_back(trailing_map(operand.region, rows));
  maps.push_back(trailing_map(args.results[0].region, rows));
  for_each_offset(rows, maps, [&](auto at) { visit(at, length); });
}

void softmax_reference(const ReferenceArgs& args) {
  for_each_row(args, [&](auto at, int64_t length) {
    const double* x = args.operands[0].data + at[0];
    double* y = args.results[0].data + at[1];
    double maximum = *std::max_element(x, x + length);
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += std::exp(x[i] - maximum);
    for (int64_t i = 0; i < length; ++i) y[i] = std::exp(x[i] - maximum) / sum;
  });
}

void softmax_grad_reference(const ReferenceArgs& args) {
  for_each_row(args, [&](auto at, int64_t length) {
    const double* dy = args.operands[0].data + at[0];
    const double* y = args.operands[1].data + at[1];
    double* dx = args.results[0].data + at[2];
    double dot = 0;
    for (int64_t i = 0; i < length; ++i) dot += dy[i] * y[i];
    for (int64_t i = 0; i < length; ++i) dx[i] = y[i] * (dy[i] - dot);
  });
}

}  // namespace

const OpDef kSoftmaxOp = {
    .kind = OpKind::kSoftmax,
    .name = "softmax",
    .summary = "y = exp(x) / sum of exp(x), over the last dimension",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_softmax,
    .gradient = gradient,
    .sharding_rule = softmax_rule,
    .cost = elementwise_cost<8>,
    .reference = softmax_reference,
    .inplace = {0},
};

const OpDef kSoftmaxGradOp = {
    .kind = OpKind::kSoftmaxGrad,
    .name = "softmax_grad",
    .summary = "dx = y * (dy - sum of dy * y), over the last dimension",
    .min_operands = 2,
    .max_operands = 2,
    .infer_types = infer_softmax_grad,
    .sharding_rule = softmax_grad_rule,
    .cost = elementwise_cost<4>,
    .reference = softmax_grad_reference,
    .inplace = {0},
};

}  // namespace tpc

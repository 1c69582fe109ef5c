// Sum of squares of all elements: the gradient norm's part of one tensor, or of one rank.
#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  require_f32(query.operands[0], "input");
  return {TensorType{}};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  ValueId twice = builder.emit_one(OpKind::kScale, {builder.operand(0)}, {{"factor", 2.0}});
  builder.set_grad(0, builder.emit_one(OpKind::kMultiply, {twice, dy}));
}

ShardingRule sharding_rule(const OpQuery& query) {
  return ShardingRule::einsum(dim_letters(query.operands[0].shape.size()) + "->");
}

OpCost cost(const OpQuery& query) {
  OpCost cost = elementwise_cost(query, 0);
  cost.flops = 2 * static_cast<double>(num_elements(query.operands[0].shape));
  return cost;
}

void reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  double sum = 0;
  for (int64_t i = 0; i < x.region.num_elements(); ++i) sum += x.data[i] * x.data[i];
  args.results[0].data[0] = sum;
}

}  // namespace

const OpDef kSumSquaresOp = {
    .kind = OpKind::kSumSquares,
    .name = "sum_squares",
    .summary = "y[] = sum over all elements of x^2",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = cost,
    .reference = reference,
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc

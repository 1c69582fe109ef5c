#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  for (size_t i = 0; i < 2; ++i) {
    if (!builder.needs_grad(i)) continue;
    ValueId product = builder.emit_one(OpKind::kMultiply, {dy, builder.operand(1 - i)});
    builder.set_grad(i, sum_to_operand(builder, product, i));
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  constexpr int kOperands[] = {0, 1};
  ShardingRule rule = elementwise_rule(query);
  rule.linear_in_each(kOperands);
  return rule;
}

void reference(const ReferenceArgs& args) {
  map_elements(args, [](double a, double b) { return a * b; });
}

}  // namespace

const OpDef kMultiplyOp = {
    .kind = OpKind::kMultiply,
    .name = "multiply",
    .summary = "y = a * b; b may lack leading dimensions",
    .min_operands = 2,
    .max_operands = 2,
    .infer_types = infer_broadcast,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<1>,
    .reference = reference,
    .inplace = {0},
};

}  // namespace tpc

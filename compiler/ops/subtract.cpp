#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  if (builder.needs_grad(0)) builder.set_grad(0, dy);
  if (builder.needs_grad(1)) {
    ValueId sum = sum_to_operand(builder, dy, 1);
    builder.set_grad(1, builder.emit_one(OpKind::kScale, {sum}, {{"factor", -1.0}}));
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  ShardingRule rule = elementwise_rule(query);
  rule.linear_jointly({0, 1});
  return rule;
}

void reference(const ReferenceArgs& args) {
  map_elements(args, [](double a, double b) { return a - b; });
}

}  // namespace

const OpDef kSubtractOp = {
    .kind = OpKind::kSubtract,
    .name = "subtract",
    .summary = "y = a - b; b may lack leading dimensions",
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

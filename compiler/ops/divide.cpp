#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  ValueId b = builder.operand(1);
  if (builder.needs_grad(0)) builder.set_grad(0, builder.emit_one(OpKind::kDivide, {dy, b}));
  if (builder.needs_grad(1)) {
    // d(a/b)/db = -(a/b)/b
    ValueId product = builder.emit_one(OpKind::kMultiply, {dy, builder.result(0)});
    ValueId quotient = builder.emit_one(OpKind::kDivide, {product, b});
    ValueId sum = sum_to_operand(builder, quotient, 1);
    builder.set_grad(1, builder.emit_one(OpKind::kScale, {sum}, {{"factor", -1.0}}));
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  ShardingRule rule = elementwise_rule(query);
  rule.linear_jointly({0});
  return rule;
}

// A mean over no tokens is 0, not NaN: hence the defined division by 0.
void reference(const ReferenceArgs& args) {
  map_elements(args, [](double a, double b) { return b == 0 ? 0.0 : a / b; });
}

}  // namespace

const OpDef kDivideOp = {
    .kind = OpKind::kDivide,
    .name = "divide",
    .summary = "y = a / b, and 0 where b is 0; b may lack leading dimensions",
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

#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  builder.set_grad(0, builder.emit_one(OpKind::kScale, {dy}, builder.attributes()));
}

ShardingRule sharding_rule(const OpQuery& query) {
  ShardingRule rule = elementwise_rule(query);
  rule.linear_jointly({0});
  return rule;
}

void reference(const ReferenceArgs& args) {
  map_elements(args, [factor = args.attributes.get_double("factor")](double x) { return factor * x; });
}

}  // namespace

const OpDef kScaleOp = {
    .kind = OpKind::kScale,
    .name = "scale",
    .summary = "y = factor * x",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_broadcast,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<1>,
    .reference = reference,
    .inplace = {0},
};

}  // namespace tpc

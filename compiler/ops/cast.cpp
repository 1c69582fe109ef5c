// The same numbers in another element type. The policy that asks for casts is passes/apply_precision.
#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  require_float(query.operands[0], "input");
  const std::string& to = query.attributes.get_string("to");
  require_choice(to, {"f32", "bf16"}, "dtype");
  return {TensorType{*parse_dtype(to), query.operands[0].shape}};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  std::string to(to_string(builder.type(builder.operand(0)).dtype));
  builder.set_grad(0, builder.emit_one(OpKind::kCast, {dy}, {{"to", to}}));
}

// Not linear: the rounded parts of a sum do not add up to the rounded sum.
ShardingRule sharding_rule(const OpQuery& query) { return elementwise_rule(query); }

// The rounding is that of the result's type, as it is for every op.
void reference(const ReferenceArgs& args) {
  map_elements(args, [](double x) { return x; });
}

}  // namespace

const OpDef kCastOp = {
    .kind = OpKind::kCast,
    .name = "cast",
    .summary = "y = x in element type `to`, rounded to the nearest (ties to even)",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<0>,
    .reference = reference,
    .floats = {{FloatRole::kAny}, {FloatRole::kAny}},
};

}  // namespace tpc

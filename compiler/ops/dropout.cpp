// Dropout whose mask is a function of (seed, stream, step, global index): the same for every mesh, and made anew in the
// backward pass instead of kept.
#include <fmt/format.h>

#include "compiler/core/philox.h"
#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  double rate = query.attributes.get_double("rate");
  if (!(rate >= 0 && rate < 1)) throw OpTypeError(fmt::format("rate must be at least 0 and below 1, found {}", rate));
  query.attributes.get_string("stream");
  return infer_broadcast(query);
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  builder.set_grad(0, builder.emit_one(OpKind::kDropout, {dy}, builder.attributes()));
}

// Linear: the ranks of a partial sum draw the same mask.
ShardingRule sharding_rule(const OpQuery& query) {
  ShardingRule rule = elementwise_rule(query);
  rule.linear_jointly({0});
  return rule;
}

void reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  double rate = args.attributes.get_double("rate");
  PhiloxKey key = philox_key(args.context.seed, "dropout/" + args.attributes.get_string("stream"));
  std::array<IndexMap, 3> maps = {trailing_map(x.region, y.region), trailing_map(y.region, y.region),
                                  trailing_map(whole_region(y.type.shape), y.region)};
  for_each_offset(y.region, maps, [&](auto at) {
    double draw = uniform_from_word(random_word(key, args.context.step, static_cast<uint64_t>(at[2])));
    y.data[at[1]] = draw >= rate ? x.data[at[0]] / (1 - rate) : 0.0;
  });
}

}  // namespace

const OpDef kDropoutOp = {
    .kind = OpKind::kDropout,
    .name = "dropout",
    .summary = "y = x / (1 - rate) where the element's random number is at least rate, else 0",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<12>,
    .reference = reference,
    .inplace = {0},
};

}  // namespace tpc

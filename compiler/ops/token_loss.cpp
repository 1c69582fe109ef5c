// Cross-entropy of tokens from their softmax statistics: log(stats[0]) - stats[1], summed, and how many tokens count.
// The mean is made of the two sums only after all ranks' tokens are in them.
#include <cmath>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

void check_tokens(const OpQuery& query) {
  Shape wanted = query.operands[1].shape;
  wanted.insert(wanted.begin(), 2);
  require_f32(query.operands[0], "stats");
  require_dtype(query.operands[1], DType::kI32, "targets");
  require_shape(query.operands[0], wanted, "stats", "a pair for each target");
  query.attributes.get_int("ignore_index");
}

std::vector<TensorType> infer_loss(const OpQuery& query) {
  check_tokens(query);
  return {TensorType{}, TensorType{}};
}

std::vector<TensorType> infer_loss_grad(const OpQuery& query) {
  check_tokens(query);
  require_f32(query.operands[2], "dloss");
  require_shape(query.operands[2], {}, "dloss", "the shape of a scalar");
  return {query.operands[0]};
}

// The count is piecewise constant: only the sum has a gradient.
void gradient(GradBuilder& builder) {
  ValueId dloss = builder.grad_of_result(0);
  if (!dloss.is_valid() || !builder.needs_grad(0)) return;
  builder.set_grad(0, builder.emit_one(OpKind::kTokenLossGrad, {builder.operand(0), builder.operand(1), dloss},
                                       builder.attributes()));
}

ShardingRule loss_rule(const OpQuery& query) {
  std::string tokens = dim_letters(query.operands[1].shape.size());
  return ShardingRule::einsum("z" + tokens + "," + tokens + "->,", "z");
}

ShardingRule loss_grad_rule(const OpQuery& query) {
  std::string tokens = dim_letters(query.operands[1].shape.size());
  ShardingRule rule = ShardingRule::einsum("z" + tokens + "," + tokens + ",->z" + tokens, "z");
  rule.linear_jointly({2});
  return rule;
}

OpCost loss_cost(const OpQuery& query) {
  OpCost cost = elementwise_cost(query, 0);
  cost.flops = 4 * static_cast<double>(num_elements(query.operands[1].shape));
  return cost;
}

// Calls visit(offset of stats[0], offset of the target) for the tokens of `tokens`.
template <class Visit>
void for_each_token(const ReferenceTensor& stats, const ReferenceTensor& targets, const Region& tokens, Visit&& visit) {
  std::vector<int64_t> stats_dims = dims_from(0, tokens.dims.size());
  stats_dims.insert(stats_dims.begin(), kNoLoop);
  std::array<IndexMap, 2> maps = {index_map(stats.region, stats_dims, tokens), trailing_map(targets.region, tokens)};
  for_each_offset(tokens, maps, [&](auto at) { visit(at[0], at[1]); });
}

void loss_reference(const ReferenceArgs& args) {
  const ReferenceTensor& stats = args.operands[0];
  const ReferenceTensor& targets = args.operands[1];
  auto ignored = static_cast<double>(args.attributes.get_int("ignore_index"));
  int64_t second = targets.region.num_elements();
  double sum = 0;
  double count = 0;
  for_each_token(stats, targets, targets.region, [&](int64_t stat, int64_t target) {
    if (targets.data[target] == ignored) return;
    sum += std::log(stats.data[stat]) - stats.data[stat + second];
    count += 1;
  });
  args.results[0].data[0] = sum;
  args.results[1].data[0] = count;
}

void loss_grad_reference(const ReferenceArgs& args) {
  const ReferenceTensor& stats = args.operands[0];
  const ReferenceTensor& targets = args.operands[1];
  const ReferenceTensor& dstats = args.results[0];
  auto ignored = static_cast<double>(args.attributes.get_int("ignore_index"));
  int64_t second = targets.region.num_elements();
  double dloss = args.operands[2].data[0];
  // dstats has the region of stats.
  for_each_token(stats, targets, targets.region, [&](int64_t stat, int64_t target) {
    bool counts = targets.data[target] != ignored;
    dstats.data[stat] = counts ? dloss / stats.data[stat] : 0.0;
    dstats.data[stat + second] = counts ? -dloss : 0.0;
  });
}

}  // namespace

const OpDef kTokenLossOp = {
    .kind = OpKind::kTokenLoss,
    .name = "token_loss",
    .summary = "loss, count = sums over tokens with target != ignore_index of log(stats[0]) - stats[1], and of 1",
    .min_operands = 2,
    .max_operands = 2,
    .num_results = 2,
    .infer_types = infer_loss,
    .gradient = gradient,
    .sharding_rule = loss_rule,
    .cost = loss_cost,
    .reference = loss_reference,
    .floats = {{FloatRole::kFull, FloatRole::kAny, FloatRole::kFull}, {FloatRole::kFull}},
};

const OpDef kTokenLossGradOp = {
    .kind = OpKind::kTokenLossGrad,
    .name = "token_loss_grad",
    .summary = "dstats[2, ...] = (dloss / stats[0], -dloss), and 0 where target = ignore_index",
    .min_operands = 3,
    .max_operands = 3,
    .infer_types = infer_loss_grad,
    .sharding_rule = loss_grad_rule,
    .cost = loss_cost,
    .reference = loss_grad_reference,
    .inplace = {0},
    .floats = {{FloatRole::kFull, FloatRole::kAny, FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc

// What the cross-entropy needs of a row of logits, in a form that ranks holding parts of the vocabulary can add up:
// stats[0] = sum over v of exp(x[v] - m), stats[1] = x[target] - m.
#include <cmath>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

// Checks logits[..., v], targets[...] and m[...]; returns the shape of the stats.
Shape check_rows(const OpQuery& query) {
  const TensorType& logits = query.operands[0];
  require_float(logits, "logits");
  require_min_rank(logits, 1, "logits");
  Shape tokens(logits.shape.begin(), logits.shape.end() - 1);
  require_dtype(query.operands[1], DType::kI32, "targets");
  require_shape(query.operands[1], tokens, "targets", "the shape of the logits without the last dimension");
  require_f32(query.operands[2], "maximum");
  require_shape(query.operands[2], tokens, "maximum", "the shape of the logits without the last dimension");
  tokens.insert(tokens.begin(), 2);
  require_sizes(tokens, "stats");
  return tokens;
}

std::vector<TensorType> infer_stats(const OpQuery& query) { return {TensorType{DType::kF32, check_rows(query)}}; }

std::vector<TensorType> infer_stats_grad(const OpQuery& query) {
  require_shape(query.operands[3], check_rows(query), "dstats", "the shape of the stats");
  require_f32(query.operands[3], "dstats");
  return {query.operands[0]};
}

void gradient(GradBuilder& builder) {
  ValueId dstats = builder.grad_of_result(0);
  if (!dstats.is_valid() || !builder.needs_grad(0)) return;
  builder.set_grad(0, builder.emit_one(OpKind::kSoftmaxStatsGrad,
                                       {builder.operand(0), builder.operand(1), builder.operand(2), dstats}));
}

// 'z' is the dimension of the two statistics.
ShardingRule stats_rule(const OpQuery& query) {
  std::string tokens = dim_letters(query.operands[1].shape.size());
  return ShardingRule::einsum(tokens + "v," + tokens + "," + tokens + "->z" + tokens, "z");
}

ShardingRule stats_grad_rule(const OpQuery& query) {
  std::string tokens = dim_letters(query.operands[1].shape.size());
  ShardingRule rule =
      ShardingRule::einsum(tokens + "v," + tokens + "," + tokens + ",z" + tokens + "->" + tokens + "v", "z");
  // Rounded parts of a sum do not add up to the rounded sum.
  if (query.results[0].dtype == query.operands[3].dtype) rule.linear_jointly({3});
  return rule;
}

OpCost stats_cost(const OpQuery& query) {
  OpCost cost = elementwise_cost(query, 0);
  cost.flops = 6 * static_cast<double>(num_elements(query.operands[0].shape));
  return cost;
}

// One row of logits as a rank holds it: where its parts lie, and the first and last vocabulary entries.
struct RowMaps {
  Region tokens;
  Interval vocabulary;
  std::array<IndexMap, 4> maps;  // row of logits, targets, maximum, first statistic
  int64_t second_stat = 0;       // from the first statistic to the second one
};

RowMaps row_maps(const Region& logits, const ReferenceTensor& targets, const ReferenceTensor& maximum,
                 const ReferenceTensor& stats, const Region& tokens) {
  Region row = logits;
  // A row starts at the first vocabulary entry that the rank holds: loop index 0 along `v`.
  row.dims.back() = {0, logits.dims.back().size()};
  std::vector<int64_t> token_dims = dims_from(0, tokens.dims.size());
  std::vector<int64_t> row_dims = token_dims;
  row_dims.push_back(kNoLoop);
  std::vector<int64_t> stats_dims = token_dims;
  stats_dims.insert(stats_dims.begin(), kNoLoop);
  return {tokens,
          logits.dims.back(),
          {index_map(row, row_dims, tokens), index_map(targets.region, token_dims, tokens),
           index_map(maximum.region, token_dims, tokens), index_map(stats.region, stats_dims, tokens)},
          without_dims(stats.region, 0, 1).num_elements()};
}

// Position of the target among the held vocabulary entries, or -1: another rank's, or a token that is ignored.
int64_t held_target(const RowMaps& rows, double target) {
  auto entry = static_cast<int64_t>(target);
  bool is_held = rows.vocabulary.begin <= entry && entry < rows.vocabulary.end;
  return is_held ? entry - rows.vocabulary.begin : -1;
}

void stats_reference(const ReferenceArgs& args) {
  const ReferenceTensor& stats = args.results[0];
  RowMaps rows =
      row_maps(args.operands[0].region, args.operands[1], args.operands[2], stats, without_dims(stats.region, 0, 1));
  for_each_offset(rows.tokens, rows.maps, [&](auto at) {
    const double* x = args.operands[0].data + at[0];
    double maximum = args.operands[2].data[at[2]];
    double sum = 0;
    for (int64_t v = 0; v < rows.vocabulary.size(); ++v) sum += std::exp(x[v] - maximum);
    int64_t target = held_target(rows, args.operands[1].data[at[1]]);
    stats.data[at[3]] = sum;
    stats.data[at[3] + rows.second_stat] = target < 0 ? 0.0 : x[target] - maximum;
  });
}

void stats_grad_reference(const ReferenceArgs& args) {
  const ReferenceTensor& dstats = args.operands[3];
  const ReferenceTensor& dlogits = args.results[0];
  RowMaps rows = row_maps(args.operands[0].region, args.operands[1], args.operands[2], dstats,
                          without_dims(dlogits.region, dlogits.region.dims.size() - 1, 1));
  // The gradient has the region of the logits, so its rows lie where theirs do.
  for_each_offset(rows.tokens, rows.maps, [&](auto at) {
    const double* x = args.operands[0].data + at[0];
    double* dx = dlogits.data + at[0];
    double maximum = args.operands[2].data[at[2]];
    int64_t target = held_target(rows, args.operands[1].data[at[1]]);
    for (int64_t v = 0; v < rows.vocabulary.size(); ++v) {
      dx[v] = std::exp(x[v] - maximum) * dstats.data[at[3]];
      if (v == target) dx[v] += dstats.data[at[3] + rows.second_stat];
    }
  });
}

}  // namespace

const OpDef kSoftmaxStatsOp = {
    .kind = OpKind::kSoftmaxStats,
    .name = "softmax_stats",
    .summary =
        "stats[2, ...] = (sum over v of exp(x[..., v] - m), x[..., target] - m), for logits x, targets, maximum m",
    .min_operands = 3,
    .max_operands = 3,
    .infer_types = infer_stats,
    .gradient = gradient,
    .sharding_rule = stats_rule,
    .cost = stats_cost,
    .reference = stats_reference,
    .floats = {{FloatRole::kData, FloatRole::kData, FloatRole::kFull}, {FloatRole::kFull}},
};

const OpDef kSoftmaxStatsGradOp = {
    .kind = OpKind::kSoftmaxStatsGrad,
    .name = "softmax_stats_grad",
    .summary = "dx[..., v] = exp(x[..., v] - m) * dstats[0] + [v = target] * dstats[1]",
    .min_operands = 4,
    .max_operands = 4,
    .infer_types = infer_stats_grad,
    .sharding_rule = stats_grad_rule,
    .cost = stats_cost,
    .reference = stats_grad_reference,
    .inplace = {0},
    .floats = {{FloatRole::kData, FloatRole::kData, FloatRole::kFull, FloatRole::kFull}, {FloatRole::kData}},
};

}  // namespace tpc

// Maximum over the last dimension: the shift that keeps exp() in range. No gradient flows through it, because softmax
// statistics do not depend on the shift.
#include <algorithm>
#include <limits>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  TensorType type = query.operands[0];
  require_float(type, "input");
  require_min_rank(type, 1, "input");
  type.shape.pop_back();
  type.dtype = DType::kF32;
  return {type};
}

ShardingRule sharding_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.results[0].shape.size());
  ShardingRule rule = ShardingRule::einsum(letters + "v->" + letters);
  rule.factors[static_cast<size_t>(rule.find_factor("v"))].reduce = ReduceOp::kMax;
  return rule;
}

OpCost cost(const OpQuery& query) {
  OpCost cost = elementwise_cost(query, 0);
  cost.flops = static_cast<double>(num_elements(query.operands[0].shape));
  return cost;
}

void reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  Region loop = y.region;
  loop.dims.push_back(x.region.dims.back());
  std::array<IndexMap, 2> maps = {trailing_map(x.region, loop),
                                  index_map(y.region, dims_from(0, y.region.dims.size()), loop)};
  std::fill_n(y.data, y.region.num_elements(), -std::numeric_limits<double>::infinity());
  for_each_offset(loop, maps, [&](auto at) { y.data[at[1]] = std::max(y.data[at[1]], x.data[at[0]]); });
}

}  // namespace

const OpDef kRowMaxOp = {
    .kind = OpKind::kRowMax,
    .name = "row_max",
    .summary = "m[...] = maximum over v of x[..., v]; a constant to the gradient",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .sharding_rule = sharding_rule,
    .cost = cost,
    .reference = reference,
    .floats = {{FloatRole::kData}, {FloatRole::kFull}},
};

}  // namespace tpc

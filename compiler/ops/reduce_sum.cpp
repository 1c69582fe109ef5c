// Sum over dimensions, and its transpose: repetition along new dimensions.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

bool contains(const std::vector<int64_t>& dims, size_t dim) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(dim)) != dims.end();
}

// The dimensions below `rank` that are not in `dims`: those that the smaller of the two tensors has.
std::vector<int64_t> kept_dims(const std::vector<int64_t>& dims, size_t rank) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < rank; ++i) {
    if (!contains(dims, i)) kept.push_back(static_cast<int64_t>(i));
  }
  return kept;
}

template <class Sequence>
Sequence select(const Sequence& all, const std::vector<int64_t>& dims) {
  Sequence selected;
  selected.reserve(dims.size());
  for (int64_t dim : dims) selected.push_back(all[static_cast<size_t>(dim)]);
  return selected;
}

std::vector<TensorType> infer_reduce_sum(const OpQuery& query) {
  const TensorType& x = query.operands[0];
  const std::vector<int64_t>& dims = query.attributes.get_ints("dims");
  require_float(x, "input");
  require_increasing_dims(dims, x.shape.size(), "dims");
  return {TensorType{sum_dtype(query.attributes, x.dtype), select(x.shape, kept_dims(dims, x.shape.size()))}};
}

std::vector<TensorType> infer_broadcast_to(const OpQuery& query) {
  const TensorType& x = query.operands[0];
  const Shape& shape = query.attributes.get_ints("shape");
  const std::vector<int64_t>& dims = query.attributes.get_ints("dims");
  require_float(x, "input");
  require_sizes(shape, "the broadcast's result");
  require_increasing_dims(dims, shape.size(), "dims");
  require_shape(x, select(shape, kept_dims(dims, shape.size())), "input",
                fmt::format("the other dimensions of {}", to_string(shape)));
  return {TensorType{x.dtype, shape}};
}

void reduce_sum_gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  Attributes attributes = builder.attributes();
  attributes.set("shape", builder.type(builder.operand(0)).shape);
  builder.set_grad(0, builder.emit_one(OpKind::kBroadcastTo, {dy}, attributes));
}

void broadcast_to_gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  Attributes attributes{{"dims", builder.attributes().get_ints("dims")}};
  builder.set_grad(0, builder.emit_one(OpKind::kReduceSum, {dy}, attributes));
}

ShardingRule reduce_sum_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.operands[0].shape.size());
  ShardingRule rule = ShardingRule::einsum(
      letters + "->" + select(letters, kept_dims(query.attributes.get_ints("dims"), letters.size())));
  rule.linear_jointly({0});
  return rule;
}

ShardingRule broadcast_to_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.results[0].shape.size());
  ShardingRule rule = ShardingRule::einsum(
      select(letters, kept_dims(query.attributes.get_ints("dims"), letters.size())) + "->" + letters);
  rule.linear_jointly({0});
  return rule;
}

OpCost reduce_sum_cost(const OpQuery& query) {
  OpCost cost = elementwise_cost(query, 0);
  cost.flops = static_cast<double>(num_elements(query.operands[0].shape));
  return cost;
}

void reduce_sum_reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  std::vector<int64_t> kept = kept_dims(args.attributes.get_ints("dims"), x.region.dims.size());
  // Summed dimensions over what this rank holds of them, the others over the result's region.
  Region loop = x.region;
  for (size_t i = 0; i < kept.size(); ++i) loop.dims[static_cast<size_t>(kept[i])] = y.region.dims[i];
  std::array<IndexMap, 2> maps = {trailing_map(x.region, loop), index_map(y.region, kept, loop)};
  std::fill_n(y.data, y.region.num_elements(), 0.0);
  for_each_offset(loop, maps, [&](auto at) { y.data[at[1]] += x.data[at[0]]; });
}

void broadcast_to_reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  std::vector<int64_t> kept = kept_dims(args.attributes.get_ints("dims"), y.region.dims.size());
  std::array<IndexMap, 2> maps = {index_map(x.region, kept, y.region), trailing_map(y.region, y.region)};
  for_each_offset(y.region, maps, [&](auto at) { y.data[at[1]] = x.data[at[0]]; });
}

}  // namespace

const OpDef kReduceSumOp = {
    .kind = OpKind::kReduceSum,
    .name = "reduce_sum",
    .summary = "y = sum of x over dims, which y lacks",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_reduce_sum,
    .gradient = reduce_sum_gradient,
    .sharding_rule = reduce_sum_rule,
    .cost = reduce_sum_cost,
    .reference = reduce_sum_reference,
    .floats = {{FloatRole::kAny}, {FloatRole::kSum}},
};

const OpDef kBroadcastToOp = {
    .kind = OpKind::kBroadcastTo,
    .name = "broadcast_to",
    .summary = "y of the given shape = x repeated along dims, which x lacks",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_broadcast_to,
    .gradient = broadcast_to_gradient,
    .sharding_rule = broadcast_to_rule,
    .cost = elementwise_cost<0>,
    .reference = broadcast_to_reference,
};

}  // namespace tpc

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

const std::vector<int64_t>& permutation_of(const Attributes& attributes) { return attributes.get_ints("permutation"); }

std::vector<TensorType> infer_types(const OpQuery& query) {
  const TensorType& x = query.operands[0];
  const std::vector<int64_t>& permutation = permutation_of(query.attributes);
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != dims_from(0, x.shape.size())) {
    throw OpTypeError(fmt::format("\"permutation\" must name each of the {} dimensions of {} once, found [{}]",
                                  x.shape.size(), to_string(x.shape), fmt::join(permutation, ", ")));
  }
  TensorType y{x.dtype, {}};
  for (int64_t dim : permutation) y.shape.push_back(x.shape[static_cast<size_t>(dim)]);
  return {y};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  const std::vector<int64_t>& permutation = permutation_of(builder.attributes());
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  builder.set_grad(0, builder.emit_one(OpKind::kTranspose, {dy}, {{"permutation", inverse}}));
}

ShardingRule sharding_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.operands[0].shape.size());
  std::string result;
  for (int64_t dim : permutation_of(query.attributes)) result += letters[static_cast<size_t>(dim)];
  ShardingRule rule = ShardingRule::einsum(letters + "->" + result);
  rule.linear_jointly({0});
  return rule;
}

void reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  const std::vector<int64_t>& permutation = permutation_of(args.attributes);
  std::vector<int64_t> loop_dims(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    loop_dims[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  std::array<IndexMap, 2> maps = {index_map(x.region, loop_dims, y.region), trailing_map(y.region, y.region)};
  for_each_offset(y.region, maps, [&](auto at) { y.data[at[1]] = x.data[at[0]]; });
}

}  // namespace

const OpDef kTransposeOp = {
    .kind = OpKind::kTranspose,
    .name = "transpose",
    .summary = "dimension i of y = dimension permutation[i] of x",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<0>,
    .reference = reference,
};

}  // namespace tpc

// The contraction: every matrix product of a model and of its backward pass, in the letters of its einsum.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/ops/einsum.h"
#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

Einsum einsum_of(const Attributes& attributes) { return parse_einsum(attributes.get_string("einsum")); }

std::vector<TensorType> infer_types(const OpQuery& query) {
  require_float(query.operands[0], "first operand");
  require_float_like(query.operands[1], query.operands[0], "second operand");
  TensorType y{sum_dtype(query.attributes, query.operands[0].dtype),
               einsum_shape(einsum_of(query.attributes), query.operands[0].shape, query.operands[1].shape)};
  require_sizes(y.shape, "the contraction's result");
  return {y};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  Einsum einsum = einsum_of(builder.attributes());
  // Every letter of x is in y or in w, so each gradient is a contraction of dy with the other operand.
  if (builder.needs_grad(0)) {
    Einsum dx{einsum.y, einsum.w, einsum.x};
    builder.set_grad(0, builder.emit_one(OpKind::kContract, {dy, builder.operand(1)}, {{"einsum", to_string(dx)}}));
  }
  if (builder.needs_grad(1)) {
    Einsum dw{einsum.y, einsum.x, einsum.w};
    builder.set_grad(1, builder.emit_one(OpKind::kContract, {dy, builder.operand(0)}, {{"einsum", to_string(dw)}}));
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  constexpr int kOperands[] = {0, 1};
  ShardingRule rule = ShardingRule::einsum(query.attributes.get_string("einsum"));
  rule.linear_in_each(kOperands);
  return rule;
}

OpCost cost(const OpQuery& query) {
  EinsumGroups groups = einsum_groups(einsum_of(query.attributes));
  std::string letters = groups.batch + groups.m + groups.n + groups.k;
  OpCost cost = elementwise_cost(query, 0);
  cost.flops = 2.0 * static_cast<double>(letters_size(einsum_of(query.attributes), query.operands[0].shape,
                                                      query.operands[1].shape, letters));
  return cost;
}

std::vector<int64_t> positions(const std::string& term, const std::string& letters) {
  std::vector<int64_t> dims;
  for (char letter : term) {
    size_t position = letters.find(letter);
    dims.push_back(position == std::string::npos ? kNoLoop : static_cast<int64_t>(position));
  }
  return dims;
}

void reference(const ReferenceArgs& args) {
  Einsum einsum = einsum_of(args.attributes);
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& w = args.operands[1];
  const ReferenceTensor& y = args.results[0];
  // The result's letters over its region, the contracted ones over the block that both operands hold.
  std::string letters = einsum.y;
  Region loop = y.region;
  for (char letter : einsum_groups(einsum).k) {
    const Interval& block = x.region.dims[einsum.x.find(letter)];
    TPC_CHECK(w.region.dims[einsum.w.find(letter)] == block, "the operands hold different blocks of '{}'", letter);
    letters += letter;
    loop.dims.push_back(block);
  }
  std::array<IndexMap, 3> maps = {index_map(x.region, positions(einsum.x, letters), loop),
                                  index_map(w.region, positions(einsum.w, letters), loop),
                                  index_map(y.region, positions(einsum.y, letters), loop)};
  std::fill_n(y.data, y.region.num_elements(), 0.0);
  for_each_offset(loop, maps, [&](auto at) { y.data[at[2]] += x.data[at[0]] * w.data[at[1]]; });
}

}  // namespace

const OpDef kContractOp = {
    .kind = OpKind::kContract,
    .name = "contract",
    .summary = "y[b,m,n] = sum over k of x[b,m,k] * w[b,k,n], in the letters of the node's einsum",
    .min_operands = 2,
    .max_operands = 2,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = cost,
    .reference = reference,
    .heavy = true,
    .floats = {{FloatRole::kData}, {FloatRole::kSum}},
};

}  // namespace tpc

// Addition of two or more tensors: residuals, biases, gradient accumulation.
#include <numeric>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  for (size_t i = 0; i < builder.num_operands(); ++i) {
    if (builder.needs_grad(i)) builder.set_grad(i, sum_to_operand(builder, dy, i));
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  ShardingRule rule = elementwise_rule(query);
  std::vector<int> all(query.operands.size());
  std::iota(all.begin(), all.end(), 0);
  // Jointly: a replicated bias added to a partial sum would count once per rank.
  rule.linear_jointly(std::move(all));
  return rule;
}

OpCost cost(const OpQuery& query) { return elementwise_cost(query, static_cast<double>(query.operands.size() - 1)); }

void reference(const ReferenceArgs& args) {
  size_t count = args.operands.size();
  for_each_element(args, [&](auto at) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += args.operands[i].data[at[i]];
    args.results[0].data[at[count]] = sum;
  });
}

}  // namespace

const OpDef kAddOp = {
    .kind = OpKind::kAdd,
    .name = "add",
    .summary = "y = a + b + ...; operands after the first may lack leading dimensions",
    .min_operands = 2,
    .max_operands = kAnyNumber,
    .infer_types = infer_broadcast,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = cost,
    .reference = reference,
    .inplace = {0},
    .accumulates = true,
};

}  // namespace tpc

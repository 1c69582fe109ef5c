#include "compiler/plan/step_splits.h"

#include <optional>

#include "compiler/ops/op_def.h"
#include "compiler/plan/layer_role.h"
#include "compiler/plan/plan_classes.h"

namespace tpc {
namespace {

std::vector<bool> uses(const std::vector<std::optional<Factor::Use>>& list, size_t count) {
  std::vector<bool> result(count, false);
  for (size_t i = 0; i < list.size() && i < count; ++i) result[i] = list[i].has_value();
  return result;
}

}  // namespace

std::vector<StepSplit> step_splits(const Plan& plan, const PlanStep& step, const ModelWords& words) {
  const OpDef& def = op_def(step.op);
  if (def.sharding_rule == nullptr) return {};
  std::vector<TensorType> operand_types = types_of(plan, step.operands);
  std::vector<TensorType> result_types = types_of(plan, step.results);
  ShardingRule rule = def.sharding_rule({step.attributes, operand_types, result_types});
  std::vector<Shape> operands = shapes_of(plan, step.operands);
  std::vector<Shape> results = shapes_of(plan, step.results);
  NodeSharding sharding{shardings_of(plan, step.operands), shardings_of(plan, step.results)};
  std::optional<std::vector<Strategy>> chosen = find_strategies(rule, sharding, operands, results, plan.mesh);
  std::vector<StepSplit> splits;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    int index = static_cast<int>(f);
    StepSplit split;
    split.by = factor_name(plan, step, factor, words);
    split.operands = uses(factor.operands, step.operands.size());
    split.results = uses(factor.results, step.results.size());
    for (bool is_split : split.results) split.leaves_part = split.leaves_part || !is_split;
    split.is_maximum = factor.reduce == ReduceOp::kMax;
    std::vector<int64_t> axes;
    bool fits_some = plan.mesh.num_axes() == 0;
    for (size_t axis = 0; axis < plan.mesh.num_axes(); ++axis) {
      if (chosen && (*chosen)[axis].splits(index)) axes.push_back(static_cast<int64_t>(axis));
      std::vector<Strategy> alone(plan.mesh.num_axes());
      alone[axis] = Strategy::factor(index);
      std::optional<std::string> why = why_illegal(rule, alone, operands, results, plan.mesh);
      if (!why) fits_some = true;
      if (why && split.refused.empty()) split.refused = *why;
    }
    if (fits_some) split.refused.clear();
    split.used_on = axes.empty() ? "" : axes_name(plan.mesh, axes);
    splits.push_back(std::move(split));
  }
  return splits;
}

}  // namespace tpc

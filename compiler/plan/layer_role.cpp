#include "compiler/plan/layer_role.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "compiler/plan/plan_classes.h"

namespace tpc {
namespace {

const PlanTensor& tensor_of(const Plan& plan, int tensor) { return plan.tensors[static_cast<size_t>(tensor)]; }

bool is_weight(const PlanTensor& tensor) {
  return tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kWeight;
}

std::string role_of_factor(const Plan& plan, const PlanStep& step, const Factor& factor, const ModelWords& words) {
  bool in_weight = false;
  bool in_input = false;
  bool has_weight = false;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    bool is_parameter = is_weight(tensor_of(plan, step.operands[i]));
    has_weight = has_weight || is_parameter;
    if (!factor.operands[i]) continue;
    (is_parameter ? in_weight : in_input) = true;
  }
  bool in_result = false;
  for (const auto& use : factor.results) in_result = in_result || use.has_value();
  std::string name = factor_name(plan, step, factor, words);
  if (name == "seq") return "sequence-parallel";
  if (step.op == OpKind::kEmbedding && in_weight && !in_result) return fmt::format("vocabulary-parallel ({})", name);
  // A layer is column- or row-parallel by what its forward work does.
  if (!has_weight || !in_weight || step.phase != Phase::kForward) return "by " + name;
  if (in_result) return fmt::format("column-parallel ({})", name);
  return in_input ? fmt::format("row-parallel ({})", name) : "by " + name;
}

}  // namespace

std::string factor_name(const Plan& plan, const PlanStep& step, const Factor& factor, const ModelWords& words) {
  std::string name = factor.name;
  for (bool weights : {true, false}) {
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const PlanTensor& tensor = tensor_of(plan, step.operands[i]);
      if (is_weight(tensor) != weights || !factor.operands[i]) continue;
      name = words.dim_name(tensor, static_cast<size_t>(factor.operands[i]->dim), step.origin);
      if (!name.starts_with("dim ")) return name;
    }
  }
  return name;
}

std::string layer_role(const Plan& plan, const PlanStep& step, const ModelWords& words) {
  const OpDef& def = op_def(step.op);
  if (def.sharding_rule == nullptr) return "";
  std::vector<TensorType> operands = types_of(plan, step.operands);
  std::vector<TensorType> results = types_of(plan, step.results);
  ShardingRule rule = def.sharding_rule({step.attributes, operands, results});
  NodeSharding sharding{shardings_of(plan, step.operands), shardings_of(plan, step.results)};
  std::optional<std::vector<Strategy>> strategies =
      find_strategies(rule, sharding, shapes_of(plan, step.operands), shapes_of(plan, step.results), plan.mesh);
  if (!strategies) return "";
  std::vector<std::string> roles;
  for (size_t axis = 0; axis < strategies->size(); ++axis) {
    const Strategy& strategy = (*strategies)[axis];
    bool is_dp = user_axis(plan.mesh.axes()[axis].name) == "dp";
    if (is_dp || strategy.kind == Strategy::Kind::kReplicate) continue;
    std::string role = strategy.kind == Strategy::Kind::kLinear
                           ? std::string("on partial sums")
                           : role_of_factor(plan, step, rule.factors[static_cast<size_t>(strategy.index)], words);
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(std::move(role));
  }
  return roles.empty() ? std::string("replicated") : fmt::format("{}", fmt::join(roles, ", "));
}

}  // namespace tpc

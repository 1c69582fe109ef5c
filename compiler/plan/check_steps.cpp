#include "compiler/plan/check_steps.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "compiler/plan/plan_classes.h"
#include "compiler/plan/step_attributes.h"

namespace tpc {
namespace {

using Wrong = std::optional<std::string>;

/// `step` as a user finds it again: contract "block0.fc1".
std::string describe(const Plan& plan, const PlanStep& step) {
  const std::vector<int>& named = step.results.empty() ? step.operands : step.results;
  std::string name = named.empty() ? "" : fmt::format(" \"{}\"", plan.tensors[static_cast<size_t>(named[0])].name);
  return fmt::format("{}{}", op_name(step.op), name);
}

bool stands_in_plans(OpKind op) {
  return op != OpKind::kParameter && op != OpKind::kInput && op != OpKind::kState && op != OpKind::kRedistribute;
}

std::string shardings_text(const Plan& plan, const PlanStep& step) {
  std::string text;
  for (int tensor : step.operands) {
    text += (text.empty() ? "" : ", ") + to_string(plan.tensors[static_cast<size_t>(tensor)].sharding);
  }
  text += " ->";
  for (int tensor : step.results) text += " " + to_string(plan.tensors[static_cast<size_t>(tensor)].sharding);
  return text;
}

Wrong wrong_types(const Plan& plan, const PlanStep& step) {
  std::vector<TensorType> operands = types_of(plan, step.operands);
  std::vector<TensorType> inferred;
  try {
    inferred = op_def(step.op).infer_types({step.attributes, operands, {}});
  } catch (const OpTypeError& error) {
    return fmt::format("{}: {}", describe(plan, step), error.what());
  }
  if (inferred.size() != step.results.size()) {
    return fmt::format("{} makes {} results, the plan names {}", describe(plan, step), inferred.size(),
                       step.results.size());
  }
  for (size_t i = 0; i < inferred.size(); ++i) {
    const PlanTensor& result = plan.tensors[static_cast<size_t>(step.results[i])];
    if (result.type == inferred[i]) continue;
    return fmt::format("{} makes {}, the plan says that \"{}\" is {}", describe(plan, step), to_string(inferred[i]),
                       result.name, to_string(result.type));
  }
  return std::nullopt;
}

/// Every result placement that the rule gives for these operands, for the message.
std::string allowed_results(const ShardingRule& rule, const Plan& plan, const PlanStep& step) {
  std::vector<TensorSharding> operands = shardings_of(plan, step.operands);
  std::vector<Shape> operand_shapes = shapes_of(plan, step.operands);
  std::vector<Shape> result_shapes = shapes_of(plan, step.results);
  std::vector<Strategy> candidates = all_strategies(rule);
  std::vector<Strategy> chosen(plan.mesh.num_axes());
  std::string found;
  std::function<void(size_t)> search = [&](size_t axis) {
    if (!found.empty()) return;
    if (axis < chosen.size()) {
      for (Strategy candidate : candidates) {
        chosen[axis] = candidate;
        bool fits = true;
        for (size_t i = 0; fits && i < operands.size(); ++i) {
          Placement wanted = operand_placement(rule, candidate, i);
          const Placement& held = operands[i].placements[axis];
          fits = wanted.kind == held.kind && wanted.dim == held.dim && wanted.reduce == held.reduce;
        }
        if (fits) search(axis + 1);
      }
      return;
    }
    if (why_illegal(rule, chosen, operand_shapes, result_shapes, plan.mesh)) return;
    NodeSharding sharding = node_sharding(rule, chosen, operand_shapes, result_shapes, plan.mesh);
    if (sharding.operands != operands) return;
    for (const TensorSharding& result : sharding.results) found += (found.empty() ? "" : ", ") + to_string(result);
  };
  search(0);
  return found;
}

Wrong wrong_shardings(const Plan& plan, const PlanStep& step) {
  const OpDef& def = op_def(step.op);
  if (def.sharding_rule == nullptr) return std::nullopt;
  std::vector<TensorType> operand_types = types_of(plan, step.operands);
  std::vector<TensorType> result_types = types_of(plan, step.results);
  ShardingRule rule = def.sharding_rule({step.attributes, operand_types, result_types});
  NodeSharding sharding{shardings_of(plan, step.operands), shardings_of(plan, step.results)};
  if (find_strategies(rule, sharding, shapes_of(plan, step.operands), shapes_of(plan, step.results), plan.mesh)) {
    return std::nullopt;
  }
  std::string allowed = allowed_results(rule, plan, step);
  std::string way_out = allowed.empty() ? "no placement of the result makes these operands right"
                                        : fmt::format("these operands give {}", allowed);
  return fmt::format("{} does not allow the placements {}; {}", describe(plan, step), shardings_text(plan, step),
                     way_out);
}

bool is_same(const Placement& a, const Placement& b) {
  return a.kind == b.kind && a.dim == b.dim && a.reduce == b.reduce;
}

/// Blocks of `dim` on `axes` are contiguous in the group's order only when no later axis splits them further.
bool is_innermost(const TensorSharding& sharding, const std::vector<int64_t>& axes, int64_t dim) {
  for (size_t axis = static_cast<size_t>(axes[0]); axis < sharding.placements.size(); ++axis) {
    bool is_moving = std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
    if (!is_moving && sharding.placements[axis].is_shard_of(dim)) return false;
  }
  return true;
}

bool fits_kind(MoveKind kind, const Placement& from, const Placement& to) {
  switch (kind) {
    case MoveKind::kAllReduce:
      return from.is_partial() && to.is_replicate();
    case MoveKind::kReduceScatter:
      return from.is_partial() && to.is_shard();
    case MoveKind::kAllGather:
      return from.is_shard() && to.is_replicate();
    case MoveKind::kAllToAll:
      return from.is_shard() && to.is_shard();
    case MoveKind::kSlice:
      return from.is_replicate() && to.is_shard();
    case MoveKind::kMask:
      return from.is_replicate() && to == Placement::partial();
    case MoveKind::kZeroPad:
      return from.is_shard() && to == Placement::partial();
  }
  return false;
}

std::string_view wanted_change(MoveKind kind) {
  switch (kind) {
    case MoveKind::kAllReduce:
      return "P to R";
    case MoveKind::kReduceScatter:
      return "P to S";
    case MoveKind::kAllGather:
      return "S to R";
    case MoveKind::kAllToAll:
      return "S to another S";
    case MoveKind::kSlice:
      return "R to S";
    case MoveKind::kMask:
      return "R to P(sum)";
    case MoveKind::kZeroPad:
      return "S to P(sum)";
  }
  return "";
}

Wrong wrong_move(const Plan& plan, const PlanStep& step) {
  Move move = step_move(plan, step);
  std::string name = describe(plan, step);
  int64_t num_axes = static_cast<int64_t>(plan.mesh.num_axes());
  if (move.axes.back() >= num_axes) {
    return fmt::format("{} works on mesh axis {}, {} has {} (numbered from 0)", name, move.axes.back(),
                       to_string(plan.mesh), num_axes);
  }
  const TensorType& type = plan.tensors[static_cast<size_t>(step.operands[0])].type;
  const Placement& from = move.from.placements[static_cast<size_t>(move.axes[0])];
  const Placement& to = move.to.placements[static_cast<size_t>(move.axes[0])];
  TensorSharding expected = move.from;
  for (int64_t axis : move.axes) {
    size_t a = static_cast<size_t>(axis);
    if (!is_same(move.from.placements[a], from) || !is_same(move.to.placements[a], to) ||
        !fits_kind(move.kind, move.from.placements[a], move.to.placements[a])) {
      return fmt::format("{} changes {} on axis \"{}\", found {} -> {}", name, wanted_change(move.kind),
                         plan.mesh.axes()[a].name, to_string(move.from), to_string(move.to));
    }
    expected.placements[a] = move.to.placements[a];
  }
  if (canonical(type.shape, expected, plan.mesh) != move.to) {
    return fmt::format("{} on axis \"{}\" leaves the other axes alone: {} becomes {}, the plan says {}", name,
                       axes_name(plan.mesh, move.axes), to_string(move.from), to_string(expected), to_string(move.to));
  }
  bool is_contiguous = (!from.is_shard() || is_innermost(move.from, move.axes, from.dim)) &&
                       (!to.is_shard() || is_innermost(move.to, move.axes, to.dim));
  if (!is_contiguous) {
    return fmt::format(
        "{} moves an outer axis of a dimension that a later axis splits further: {} -> {}; move the later "
        "axis first",
        name, to_string(move.from), to_string(move.to));
  }
  bool is_reduction = move.kind == MoveKind::kAllReduce || move.kind == MoveKind::kReduceScatter;
  if (is_reduction && step.attributes.get_string("op") != to_string(from.reduce)) {
    return fmt::format("{} reduces {} by \"{}\"", name, to_string(from), step.attributes.get_string("op"));
  }
  if (is_reduction && !is_float(type.dtype)) return fmt::format("{} reduces {}, not f32", name, to_string(type));
  return std::nullopt;
}

}  // namespace

void check_step_forms(const Plan& plan, PlanIssues& issues) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const OpDef& def = op_def(step.op);
    int index = static_cast<int>(i);
    if (!stands_in_plans(step.op)) {
      issues.step(index, "/op", fmt::format("\"{}\" is no step of a plan", def.name));
      continue;
    }
    int operands = static_cast<int>(step.operands.size());
    if (operands < def.min_operands || operands > def.max_operands) {
      std::string wanted = def.min_operands == def.max_operands ? fmt::format("{}", def.min_operands)
                           : operands < def.min_operands        ? fmt::format("at least {}", def.min_operands)
                                                                : fmt::format("at most {}", def.max_operands);
      issues.step(index, "/operands", fmt::format("\"{}\" takes {} operands, found {}", def.name, wanted, operands));
    }
    if (def.num_results >= 0 && static_cast<int>(step.results.size()) != def.num_results) {
      issues.step(index, "/results",
                  fmt::format("\"{}\" makes {} results, found {}", def.name, def.num_results, step.results.size()));
    }
    if (std::optional<AttributeMistake> mistake = attribute_mistake(step.op, step.attributes)) {
      issues.step(index, mistake->name.empty() ? "" : "/attributes/" + mistake->name, mistake->message);
    }
  }
}

void check_step_rules(const Plan& plan, PlanIssues& issues) {
  PlanClasses classes = classify(plan);
  for (int example : classes.step_examples) {
    const PlanStep& step = plan.steps[static_cast<size_t>(example)];
    Wrong wrong = wrong_types(plan, step);
    if (!wrong) wrong = is_move(step.op) ? wrong_move(plan, step) : wrong_shardings(plan, step);
    if (wrong) issues.step(example, "", *wrong);
  }
}

}  // namespace tpc

#include "compiler/plan/rank_plan.h"

#include "compiler/core/check.h"
#include "compiler/plan/plan_classes.h"

namespace tpc {
namespace {

/// What a class of steps has in common on one rank, but for its indices.
RankStep make_step(const Plan& plan, const PlanStep& step, int64_t rank, std::span<const int64_t> coordinate,
                   const std::vector<Region>& regions, const PlanClasses& classes) {
  RankStep result;
  auto region_of = [&](int tensor) {
    return regions[static_cast<size_t>(classes.tensors[static_cast<size_t>(tensor)])];
  };
  for (int tensor : step.operands) result.operands.push_back(region_of(tensor));
  for (int tensor : step.results) result.results.push_back(region_of(tensor));
  if (!is_collective(step.op) && step.op != OpKind::kMask) return result;
  Move move = step_move(plan, step);
  result.group = plan.mesh.group(move.axes, rank);
  result.index_in_group = plan.mesh.index_in_group(move.axes, coordinate);
  if (!is_collective(step.op)) return result;
  const TensorType& type = plan.tensors[static_cast<size_t>(step.operands[0])].type;
  for (int64_t member : result.group) {
    std::vector<int64_t> of_member = plan.mesh.coordinate(member);
    result.group_inputs.push_back(local_region(type.shape, move.from, plan.mesh, of_member));
    result.group_outputs.push_back(local_region(type.shape, move.to, plan.mesh, of_member));
  }
  result.received_bytes = received_elements(move, type.shape, plan.mesh, coordinate) * byte_size(type.dtype);
  return result;
}

}  // namespace

RankPlan rank_plan(const Plan& plan, int64_t rank) {
  TPC_CHECK(rank >= 0 && rank < plan.mesh.world_size(), "rank {} of {}", rank, plan.mesh.world_size());
  RankPlan result;
  result.rank = rank;
  result.coordinate = plan.mesh.coordinate(rank);
  PlanClasses classes = classify(plan);
  std::vector<Region> regions;
  for (int example : classes.tensor_examples) {
    const PlanTensor& tensor = plan.tensors[static_cast<size_t>(example)];
    regions.push_back(local_region(tensor.type.shape, tensor.sharding, plan.mesh, result.coordinate));
  }
  std::vector<RankStep> per_class;
  for (int example : classes.step_examples) {
    per_class.push_back(
        make_step(plan, plan.steps[static_cast<size_t>(example)], rank, result.coordinate, regions, classes));
  }
  result.steps.reserve(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    result.steps.push_back(per_class[static_cast<size_t>(classes.steps[i])]);
    result.steps.back().step = static_cast<int>(i);
  }
  return result;
}

}  // namespace tpc

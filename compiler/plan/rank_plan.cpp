#include "compiler/plan/rank_plan.h"

#include "compiler/core/check.h"

namespace tpc {

int64_t RankPlan::received_bytes() const {
  int64_t bytes = 0;
  for (const RankStep& step : *steps) {
    if (const RankMove* own = move(step)) bytes += own->received_bytes;
  }
  return bytes;
}

RankPrograms::RankPrograms(const Plan& plan) : plan_(plan), classes_(classify(plan)) {
  region_of_ = std::make_shared<const std::vector<int>>(classes_.tensors);
  std::vector<int> move_of_class;
  for (size_t c = 0; c < classes_.step_examples.size(); ++c) {
    const PlanStep& example = plan.steps[static_cast<size_t>(classes_.step_examples[c])];
    bool is_among_ranks = is_collective(example.op) || example.op == OpKind::kMask;
    move_of_class.push_back(is_among_ranks ? static_cast<int>(moves_.size()) : -1);
    if (!is_among_ranks) continue;
    move_classes_.push_back(static_cast<int>(c));
    moves_.push_back(step_move(plan, example));
  }
  std::vector<RankStep> steps;
  steps.reserve(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    steps.push_back({static_cast<int>(i), move_of_class[static_cast<size_t>(classes_.steps[i])]});
  }
  steps_ = std::make_shared<const std::vector<RankStep>>(std::move(steps));
}

std::shared_ptr<const MoveGroup> RankPrograms::group_of(int step_class, const Move& move, int64_t rank) {
  std::vector<int64_t> first = plan_.mesh.coordinate(rank);
  for (int64_t axis : move.axes) first[static_cast<size_t>(axis)] = 0;
  std::shared_ptr<const MoveGroup>& known = groups_[{step_class, plan_.mesh.rank_at(first)}];
  if (known) return known;
  MoveGroup group;
  group.ranks = plan_.mesh.group(move.axes, rank);
  if (communicates(move.kind)) {
    const PlanStep& example = plan_.steps[static_cast<size_t>(classes_.step_examples[static_cast<size_t>(step_class)])];
    const Shape& shape = plan_.tensors[static_cast<size_t>(example.operands[0])].type.shape;
    for (int64_t member : group.ranks) {
      std::vector<int64_t> of_member = plan_.mesh.coordinate(member);
      group.inputs.push_back(local_region(shape, move.from, plan_.mesh, of_member));
      group.outputs.push_back(local_region(shape, move.to, plan_.mesh, of_member));
    }
  }
  return known = std::make_shared<const MoveGroup>(std::move(group));
}

RankPlan RankPrograms::of(int64_t rank) {
  TPC_CHECK(rank >= 0 && rank < plan_.mesh.world_size(), "rank {} of {}", rank, plan_.mesh.world_size());
  RankPlan program;
  program.rank = rank;
  program.coordinate = plan_.mesh.coordinate(rank);
  program.region_of = region_of_;
  program.steps = steps_;
  program.regions.reserve(classes_.tensor_examples.size());
  for (int example : classes_.tensor_examples) {
    const PlanTensor& tensor = plan_.tensors[static_cast<size_t>(example)];
    program.regions.push_back(local_region(tensor.type.shape, tensor.sharding, plan_.mesh, program.coordinate));
  }
  program.moves.reserve(moves_.size());
  for (size_t i = 0; i < moves_.size(); ++i) {
    int example = classes_.step_examples[static_cast<size_t>(move_classes_[i])];
    const TensorType& type =
        plan_.tensors[static_cast<size_t>(plan_.steps[static_cast<size_t>(example)].operands[0])].type;
    program.moves.push_back(
        {group_of(move_classes_[i], moves_[i], rank), plan_.mesh.index_in_group(moves_[i].axes, program.coordinate),
         received_elements(moves_[i], type.shape, plan_.mesh, program.coordinate) * byte_size(type.dtype)});
  }
  return program;
}

RankPlan rank_plan(const Plan& plan, int64_t rank) { return RankPrograms(plan).of(rank); }

}  // namespace tpc

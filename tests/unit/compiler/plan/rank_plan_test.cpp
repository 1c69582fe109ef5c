#include "compiler/plan/rank_plan.h"

#include <doctest/doctest.h>

#include "tests/unit/compiler/plan/sample_plan.h"

namespace tpc {

TEST_CASE("a rank's program has its own regions and groups") {
  Plan sample = sample_plan();
  RankPlan plan = rank_plan(sample, 1);
  CHECK(plan.coordinate == std::vector<int64_t>{1});
  REQUIRE(plan.steps->size() == 6);
  const PlanStep& first = sample.steps[0];
  CHECK(plan.region(first.operands[0]) == Region{{{0, 4}, {0, 8}}});
  CHECK(plan.region(first.operands[1]) == Region{{{3, 6}, {0, 8}}});
  CHECK(plan.region(first.results[0]) == Region{{{0, 4}, {3, 6}}});
  CHECK(plan.move((*plan.steps)[0]) == nullptr);

  CHECK((*plan.steps)[3].step == 3);
  const RankMove* reduce = plan.move((*plan.steps)[3]);
  REQUIRE(reduce != nullptr);
  CHECK(reduce->group->ranks == std::vector<int64_t>{0, 1});
  CHECK(reduce->index == 1);
  CHECK(reduce->group->inputs.size() == 2);
  CHECK(reduce->group->outputs[0] == Region{{{0, 4}, {0, 8}}});
  // 2 * 32 elements * 1/2, 4 bytes each.
  CHECK(reduce->received_bytes == 128);
}

TEST_CASE("the ranks of a group agree on it and partition what is split") {
  Plan plan = sample_plan();
  plan.mesh = DeviceMesh({{"dp", 2}, {"tp", 3}});
  for (PlanTensor& tensor : plan.tensors) {
    tensor.sharding.placements.insert(tensor.sharding.placements.begin(), Placement::replicate());
  }
  plan.steps[3].attributes.set("axes", std::vector<int64_t>{1});
  RankPrograms programs(plan);
  for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) {
    RankPlan own = programs.of(rank);
    const RankMove& move = *own.move((*own.steps)[3]);
    CHECK(move.group->ranks[static_cast<size_t>(move.index)] == rank);
    for (size_t member = 0; member < move.group->ranks.size(); ++member) {
      RankPlan other = programs.of(move.group->ranks[member]);
      CHECK(other.move((*other.steps)[3])->group == move.group);
      CHECK(other.region(plan.steps[3].operands[0]) == move.group->inputs[member]);
      CHECK(other.region(plan.steps[3].results[0]) == move.group->outputs[member]);
    }
  }
}

}  // namespace tpc

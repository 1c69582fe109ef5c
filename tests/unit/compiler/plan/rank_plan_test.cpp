#include "compiler/plan/rank_plan.h"

#include <doctest/doctest.h>

#include "tests/unit/compiler/plan/sample_plan.h"

namespace tpc {

TEST_CASE("a rank's program has its own regions and groups") {
  RankPlan plan = rank_plan(sample_plan(), 1);
  CHECK(plan.coordinate == std::vector<int64_t>{1});
  REQUIRE(plan.steps.size() == 6);
  CHECK(plan.steps[0].operands[0] == Region{{{0, 4}, {0, 8}}});
  CHECK(plan.steps[0].operands[1] == Region{{{3, 6}, {0, 8}}});
  CHECK(plan.steps[0].results[0] == Region{{{0, 4}, {3, 6}}});
  CHECK(plan.steps[0].group.empty());

  const RankStep& reduce = plan.steps[3];
  CHECK(reduce.step == 3);
  CHECK(reduce.group == std::vector<int64_t>{0, 1});
  CHECK(reduce.index_in_group == 1);
  CHECK(reduce.group_inputs.size() == 2);
  CHECK(reduce.group_outputs[0] == Region{{{0, 4}, {0, 8}}});
  // 2 * 32 elements * 1/2, 4 bytes each.
  CHECK(reduce.received_bytes == 128);
}

TEST_CASE("the ranks of a group agree on it and partition what is split") {
  Plan plan = sample_plan();
  plan.mesh = DeviceMesh({{"dp", 2}, {"tp", 3}});
  for (PlanTensor& tensor : plan.tensors) {
    tensor.sharding.placements.insert(tensor.sharding.placements.begin(), Placement::replicate());
  }
  plan.steps[3].attributes.set("axes", std::vector<int64_t>{1});
  for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) {
    RankPlan own = rank_plan(plan, rank);
    const RankStep& step = own.steps[3];
    CHECK(step.group[static_cast<size_t>(step.index_in_group)] == rank);
    for (size_t member = 0; member < step.group.size(); ++member) {
      RankPlan other = rank_plan(plan, step.group[member]);
      CHECK(other.steps[3].group == step.group);
      CHECK(other.steps[3].operands[0] == step.group_inputs[member]);
      CHECK(other.steps[3].results[0] == step.group_outputs[member]);
    }
  }
}

}  // namespace tpc

// One altered rank of many is refused, wherever its program is altered.
#include <doctest/doctest.h>

#include "compiler/verify/rank_proof.h"
#include "tests/mutation/rank_faults.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

void check_alterations(const std::string& model, const MeshCase& mesh) {
  Plan plan = compile_model(model, {{"batch", 5}, {"seq", 7}}, mesh).plan;
  RankPrograms programs(plan);
  int num_altered = 0;
  for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) {
    verify::RankProof proof(plan);
    // What ranks share is known before the altered one comes.
    for (int64_t other = 0; other < plan.mesh.world_size(); ++other) REQUIRE(!proof.find_flaw(programs.of(other)));
    make_rank_faults(programs.of(rank), plan.mesh.world_size(), [&](const RankPlan& altered, const std::string& what) {
      ++num_altered;
      bool is_refused = proof.find_flaw(altered).has_value();
      CHECK_MESSAGE(is_refused, model << " on " << to_string(mesh.mesh) << ", rank " << rank << ", " << what);
    });
  }
  MESSAGE(num_altered << " altered programs of " << model << " on " << to_string(mesh.mesh));
}

}  // namespace

TEST_CASE("a rank without a list of steps or regions is refused, whatever was looked at before") {
  Plan plan = compile_model("tiny_gpt", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  const RankPlan good = rank_plan(plan, 1);
  auto without = [&](auto&& change) {
    RankPlan altered = good;
    change(altered);
    verify::RankProof fresh(plan);
    CHECK(fresh.find_flaw(altered));
    verify::RankProof used(plan);
    CHECK(!used.find_flaw(good));
    CHECK(used.find_flaw(altered));
    CHECK(!used.find_flaw(good));
  };
  without([](RankPlan& p) { p.steps = nullptr; });
  without([](RankPlan& p) { p.region_of = nullptr; });
  without([](RankPlan& p) { p.regions.clear(); });
  without([](RankPlan& p) { p.moves.clear(); });
  without([](RankPlan& p) { p.coordinate.clear(); });
  without([](RankPlan& p) { p.rank = 2; });
  without([](RankPlan& p) { p.region_of = std::make_shared<std::vector<int>>(); });
  without([](RankPlan& p) { p.steps = std::make_shared<std::vector<RankStep>>(); });
}

TEST_CASE("what is wrong with one rank hides nothing of another") {
  Plan plan = compile_model("tiny_gpt", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  verify::RankProof proof(plan);
  REQUIRE(!proof.find_flaw(rank_plan(plan, 0)));
  RankPrograms programs(plan);
  RankPlan wrong_bytes = programs.of(1);
  wrong_bytes.moves[0].received_bytes += 4;
  make_rank_faults(programs.of(0), plan.mesh.world_size(), [&](const RankPlan& altered, const std::string& what) {
    CHECK_MESSAGE(proof.find_flaw(altered), what);
    CHECK_MESSAGE(proof.find_flaw(wrong_bytes), "after " << what);
  });
  CHECK(!proof.find_flaw(programs.of(1)));
}

TEST_CASE("an altered rank of a GPT on uneven ranks is refused") {
  check_alterations("tiny_gpt", {"", DeviceMesh({{"tp", 3}}), true});
}

TEST_CASE("an altered rank of a Llama on two axes with ZeRO 3 is refused") {
  check_alterations("llama_tiny", {"", DeviceMesh({{"dp", 2}, {"tp", 2}}), false, 3});
}

TEST_CASE("one altered rank of 16,384 is refused, and its place told") {
  Plan plan = compile_model("tiny_gpt", {{"batch", 128}, {"heads", 128}, {"seq", 128}, {"vocab", 300}},
                            {"", DeviceMesh({{"dp", 128}, {"tp", 128}}), true})
                  .plan;
  RankPrograms programs(plan);
  verify::RankProof proof(plan);
  for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) {
    RankPlan program = programs.of(rank);
    REQUIRE(!proof.find_flaw(program));
    if (rank != 9'999) continue;
    for (size_t i = 0; i < program.steps->size(); ++i) {
      if ((*program.steps)[i].move < 0) continue;
      RankPlan altered = program;
      std::vector<RankStep>& steps = own_steps(altered);
      std::swap(steps[i], steps[i - 1]);
      std::optional<verify::Flaw> flaw = proof.find_flaw(altered);
      REQUIRE(flaw.has_value());
      CHECK(flaw->step == static_cast<int>(i));
    }
  }
}

}  // namespace tpc::testing

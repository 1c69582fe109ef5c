// One altered rank, executed in exact numbers with the others: its fault is found where it shows in a number, and no
// program, however broken, is executed beyond its tensors or waits forever.
#include <doctest/doctest.h>

#include "compiler/verify/numeric/numeric_proof.h"
#include "compiler/verify/numeric/tiny_plans.h"
#include "tests/mutation/rank_faults.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

/// Bytes received are only counted; what works on one rank looks at no group; steps between which no tensor passes may
/// change places, or be made again; and a step that only names an output makes nothing.
bool shows_in_numbers(const Plan& plan, const std::string& what) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op == OpKind::kOutput && what == "step " + std::to_string(i) + " left out") return false;
  }
  return what.find("bytes") == std::string::npos && what.find("with a group") == std::string::npos &&
         what.find("twice") == std::string::npos && what.find("swapped") == std::string::npos;
}

void check_alterations(const std::string& model, const MeshCase& mesh, int64_t altered_rank, int stride) {
  const std::map<std::string, int64_t> dims{{"batch", 5}, {"seq", 7}};
  Plan one_rank = compile_model(model, dims, {"", DeviceMesh()}).plan;
  verify::TinyPlans tiny = verify::tiny_plans(one_rank, compile_model(model, dims, mesh).plan);
  std::vector<RankPlan> programs;
  for (int64_t rank = 0; rank < mesh.mesh.world_size(); ++rank) programs.push_back(rank_plan(tiny.plan, rank));
  REQUIRE(!verify::numeric_flaw(tiny.one_rank, tiny.plan, programs, 1));
  const RankPlan own = programs[static_cast<size_t>(altered_rank)];
  int number = 0;
  int num_found = 0;
  int num_same = 0;
  make_rank_faults(own, mesh.mesh.world_size(), [&](const RankPlan& altered, const std::string& what) {
    if (number++ % stride != 0) return;
    programs[static_cast<size_t>(altered_rank)] = altered;
    bool is_found = verify::numeric_flaw(tiny.one_rank, tiny.plan, programs, 1).has_value();
    ++(is_found ? num_found : num_same);
    if (!is_found) CHECK_MESSAGE(!shows_in_numbers(tiny.plan, what), what);
  });
  MESSAGE(num_found << " altered programs found, " << num_same << " leave the same numbers");
  CHECK_GT(num_found, num_same);
}

}  // namespace

TEST_CASE("an altered rank of a GPT on uneven ranks leaves other numbers") {
  check_alterations("tiny_gpt", {"", DeviceMesh({{"tp", 3}}), true}, 1, 7);
}

TEST_CASE("an altered rank of a Llama on two axes with ZeRO 3 leaves other numbers") {
  check_alterations("llama_tiny", {"", DeviceMesh({{"dp", 2}, {"tp", 2}}), false, 3}, 2, 7);
}

}  // namespace tpc::testing

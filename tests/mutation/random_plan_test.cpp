// No false alarms: plans that nobody would choose, but that are legal, are proved, and train as one rank does.
#include "tests/mutation/random_plan.h"

#include <doctest/doctest.h>

#include "compiler/frontend/model.h"
#include "compiler/verify/numeric/numeric_proof.h"
#include "passes/one_rank_plan.h"
#include "passes/plan_flaw.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

void check_proved(uint64_t first) {
  constexpr uint64_t kCount = 250;
  size_t num_collectives = 0;
  for (uint64_t seed = first; seed < first + kCount; ++seed) {
    RandomPlan random = random_plan(seed);
    std::optional<verify::Flaw> flaw = find_plan_flaw(random.plan, random.step);
    CHECK_MESSAGE(!flaw, "seed " << seed << ", step " << flaw->step << ": " << flaw->message);
    for (const PlanStep& step : random.plan.steps) num_collectives += is_collective(step.op) ? 1 : 0;
  }
  MESSAGE(kCount << " plans with " << num_collectives << " collectives");
}

}  // namespace

TEST_CASE("random legal plans are proved: the first quarter of a thousand") { check_proved(0); }

TEST_CASE("random legal plans are proved: the second quarter of a thousand") { check_proved(250); }

TEST_CASE("random legal plans are proved: the third quarter of a thousand") { check_proved(500); }

TEST_CASE("random legal plans are proved: the last quarter of a thousand") { check_proved(750); }

TEST_CASE("random legal plans leave the numbers of one rank") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomPlan random = random_plan(seed);
    DiagnosticSink sink;
    Model model = parse_model(random.model, "random.json", {}, sink);
    const Plan one_rank = one_rank_plan(std::move(model.graph), model.optimizer);
    std::optional<verify::Flaw> flaw = verify::numeric_flaw(one_rank, random.plan);
    CHECK_MESSAGE(!flaw, "seed " << seed << ", step " << flaw->step << ": " << flaw->message);
  }
}

TEST_CASE("random legal plans train as one rank") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomPlan random = random_plan(seed);
    Training wanted = train_reference(compile_text(random.model, "random.json", {}, {"", DeviceMesh()}).graph, 2, true);
    CHECK_MESSAGE(first_difference(wanted, train_reference(random.graph, 2, true), 1e-8) == "", "seed " << seed);
  }
}

}  // namespace tpc::testing

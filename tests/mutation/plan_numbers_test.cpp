// Every fault of every kind at every place of one small plan, executed in exact numbers: what the static proof refuses
// leaves other numbers, but for faults that change none, each for a reason.
#include <doctest/doctest.h>

#include <map>

#include "compiler/verify/numeric/numeric_proof.h"
#include "compiler/verify/plan_proof.h"
#include "tests/mutation/plan_faults.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

/// Operands and attributes that the op cannot have are refused before a plan is executed.
bool can_be_executed(const PlanFault& fault, const Plan& faulty) {
  bool changes_types = fault.name == "operands swapped" || fault.name == "other attributes";
  return !changes_types || is_sound(faulty);
}

bool has_same_regions(const Plan& a, const Plan& b) {
  for (int64_t rank = 0; rank < a.mesh.world_size(); ++rank) {
    RankPlan of_a = rank_plan(a, rank);
    RankPlan of_b = rank_plan(b, rank);
    for (size_t t = 0; t < a.tensors.size(); ++t) {
      if (of_a.region(static_cast<int>(t)) != of_b.region(static_cast<int>(t))) return false;
    }
  }
  return true;
}

/// Why a faulty plan leaves the numbers of the right one; empty where it should not.
std::string reason_of_same(const Plan& plan, const Plan& faulty, const PlanFault& fault, const std::string& what) {
  auto has = [&](const char* text) { return what.find(text) != std::string::npos; };
  if (fault.name == "other types" && has("as bf16")) return "exact numbers are not rounded";
  if (fault.name == "other leaves") return "how a weight starts is no part of a step";
  if (fault.name == "other placements" && has_same_regions(plan, faulty)) return "a claim that no rank acts on";
  if (has("made twice") && has("(update")) return "the second update is by the same value";
  if (has("reduced twice") && has("loss.max")) return "the maximum of maxima is the maximum";
  if (has("(output")) return "the plan names its outputs, whatever an output step reads";
  return "";
}

}  // namespace

TEST_CASE("faults of a plan leave other numbers at every place") {
  const std::map<std::string, int64_t> dims{{"batch", 4}, {"layers", 1}};
  const Graph step = model_step("small_gpt", dims);
  const verify::ValueNumbers values(step);
  const Plan plan = compile_model("small_gpt", dims, {"", DeviceMesh({{"tp", 2}})}).plan;
  const Plan one_rank = compile_model("small_gpt", dims, {"", DeviceMesh()}).plan;
  int num_found = 0;
  std::map<std::string, int> same;
  for (const PlanFault& fault : plan_faults()) {
    fault.make(plan, [&](const Edit& edit, const std::string& what) {
      Plan faulty = plan;
      edit(faulty);
      if (faulty == plan || !can_be_executed(fault, faulty) || !verify::find_step_flaw(values, faulty)) return;
      if (verify::numeric_flaw(one_rank, faulty)) {
        ++num_found;
        return;
      }
      std::string reason = reason_of_same(plan, faulty, fault, what);
      ++same[reason];
      CHECK_MESSAGE(!reason.empty(), fault.name << ": " << what);
    });
  }
  MESSAGE(num_found << " faults leave other numbers");
  for (const auto& [reason, count] : same) MESSAGE(count << " leave the same: " << reason);
  CHECK_GT(num_found, 1000);
}

}  // namespace tpc::testing

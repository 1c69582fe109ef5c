#include "tests/mutation/mutated_plan.h"

#include <doctest/doctest.h>

#include <optional>

#include "compiler/verify/buffer_proof.h"
#include "compiler/verify/numeric/numeric_proof.h"
#include "compiler/verify/plan_proof.h"
#include "passes/one_rank_plan.h"
#include "passes/pipeline.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

/// How a weight starts is no part of a step, letters of a formula may have other names, outputs are what the plan
/// names, whatever an output step reads, and exact numbers have no element types.
bool is_run(const PlanFault& fault, const std::string& what) {
  auto has = [&](const char* part) { return what.find(part) != std::string::npos; };
  return fault.name != "other leaves" && fault.name != "other types" && !has("einsum") && !has("(output") &&
         !has("(cast") && !has("\"to\"") && !has("\"sums\"");
}

CompileOptions options_of(const Model& model) {
  CompileOptions options;
  options.optimizer = model.optimizer;
  return options;
}

}  // namespace

MutatedPlan::MutatedPlan(const Model& model, Plan plan)
    : step_(differentiated(model.graph, options_of(model))),
      values_(step_),
      one_rank_(one_rank_plan(model.graph, model.optimizer)),
      plan_(std::move(plan)) {
  REQUIRE(!is_refused(plan_));
  std::optional<verify::Flaw> flaw = verify::numeric_flaw(one_rank_, plan_);
  REQUIRE_MESSAGE(!flaw, flaw->step << ": " << flaw->message);
}

void MutatedPlan::check(const std::string& name, int stride, int first, int executed, FaultCounts& counts) const {
  int number = 0;
  for (const PlanFault& fault : plan_faults()) {
    fault.make(plan_, [&](const Edit& edit, const std::string& what) {
      if (number++ % stride != first) return;
      Plan faulty = plan_;
      edit(faulty);
      if (faulty == plan_) return;
      ++counts.faults;
      if (!is_refused(faulty)) {
        ++counts.same;
        CHECK_MESSAGE(!numbers_differ(faulty), name << ": " << fault.name << ": " << what);
      } else if (number % executed == 0 && is_run(fault, what) && is_sound(faulty)) {
        ++counts.executed;
        CHECK_MESSAGE(numbers_differ(faulty), name << ", executed: " << fault.name << ": " << what);
      }
    });
  }
}

bool MutatedPlan::is_refused(const Plan& faulty) const {
  return verify::find_step_flaw(values_, faulty) || verify::find_buffer_flaw(faulty);
}

bool MutatedPlan::numbers_differ(const Plan& faulty) const {
  return verify::numeric_flaw(one_rank_, faulty).has_value();
}

}  // namespace tpc::testing

// Every fault of every kind, at every place, in plans of every model on every mesh: the static proof refuses it, or the
// plan is shown to be the same one by executing it in exact numbers.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <optional>

#include "compiler/core/diagnostic.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/check_plan.h"
#include "compiler/verify/buffer_proof.h"
#include "compiler/verify/numeric/numeric_proof.h"
#include "compiler/verify/numeric/tiny_plans.h"
#include "passes/one_rank_plan.h"
#include "passes/pipeline.h"
#include "tests/mutation/plan_faults.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

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
  int same = 0;      ///< accepted, and shown to be the same plan
  int executed = 0;  ///< refused, and seen to leave other numbers
};

/// One plan, and what its faults are held against.
class MutatedPlan {
 public:
  MutatedPlan(const Model& model, Plan plan)
      : step_(differentiated(model.graph, options_of(model))),
        values_(step_),
        one_rank_(one_rank_plan(model.graph, model.optimizer)),
        plan_(std::move(plan)) {
    REQUIRE(!verify::find_flaw(values_, plan_));
    std::optional<verify::NumericFlaw> flaw = verify::numeric_flaw(one_rank_, plan_);
    REQUIRE_MESSAGE(!flaw, flaw->step << ": " << flaw->message);
  }

  /// Every `stride`-th fault, from the `first` on; of the refused ones every `executed`-th is executed.
  void check(const std::string& name, int stride, int first, int executed, Counts& counts) {
    int number = 0;
    for (const PlanFault& fault : plan_faults()) {
      fault.make(plan_, [&](const Edit& edit, const std::string& what) {
        if (number++ % stride != first) return;
        Plan faulty = plan_;
        edit(faulty);
        if (faulty == plan_) return;
        ++counts.faults;
        // Attributes that no op has are refused before the proof.
        if (fault.name == "other attributes" && !is_sound(faulty)) return;
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

 private:
  /// How a weight starts is no part of a step, letters of a formula may have other names, and outputs are what the
  /// plan names, whatever an output step reads.
  static bool is_run(const PlanFault& fault, const std::string& what) {
    return fault.name != "other leaves" && what.find("einsum") == std::string::npos &&
           what.find("(output") == std::string::npos;
  }

  static CompileOptions options_of(const Model& model) {
    CompileOptions options;
    options.optimizer = model.optimizer;
    return options;
  }

  bool is_refused(const Plan& faulty) const {
    return verify::find_flaw(values_, faulty) || verify::find_buffer_flaw(faulty);
  }

  bool numbers_differ(const Plan& faulty) const { return verify::numeric_flaw(one_rank_, faulty).has_value(); }

  Graph step_;
  verify::ValueNumbers values_;
  Plan one_rank_;
  Plan plan_;
};

void check_meshes(const std::string& model_name, int stride) {
  const std::map<std::string, int64_t> dims{{"batch", 8}};
  DiagnosticSink sink;
  std::string file = std::string(TPC_SOURCE_DIR) + "/models/" + model_name + ".json";
  const Model model = load_model(file, {dims}, sink);
  Counts counts;
  int first = 0;
  for (const MeshCase& mesh : mesh_cases()) {
    if (mesh.sequence_parallel && model_name == "mlp") continue;
    CAPTURE(mesh.name);
    MutatedPlan plan(model, compile_model(model_name, dims, mesh).plan);
    plan.check(model_name + " on " + mesh.name, stride, first, 10, counts);
    first = (first + 1) % stride;
  }
  MESSAGE(model_name << ": " << counts.faults << " faults, " << counts.same << " of them the same plan; "
                     << counts.executed << " of the refused ones executed");
  CHECK(counts.faults > 100);
}

}  // namespace

TEST_CASE("faulty plans of small_gpt are refused on every mesh") { check_meshes("small_gpt", 20); }

TEST_CASE("faulty plans of tiny_gpt are refused on every mesh") { check_meshes("tiny_gpt", 20); }

TEST_CASE("faulty plans of llama_tiny are refused on every mesh") { check_meshes("llama_tiny", 20); }

TEST_CASE("faulty plans of mlp are refused on every mesh") { check_meshes("mlp", 3); }

TEST_CASE("full: faulty plans of small_gpt are refused at every place") { check_meshes("small_gpt", 1); }

TEST_CASE("full: faulty plans of tiny_gpt are refused at every place") { check_meshes("tiny_gpt", 1); }

TEST_CASE("full: faulty plans of llama_tiny are refused at every place") { check_meshes("llama_tiny", 1); }

TEST_CASE("full: faulty plans of mlp are refused at every place") { check_meshes("mlp", 1); }

}  // namespace tpc::testing

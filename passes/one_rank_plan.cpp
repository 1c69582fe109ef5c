#include "passes/one_rank_plan.h"

#include "compiler/core/check.h"
#include "passes/emit_plan.h"
#include "passes/pass_manager.h"
#include "passes/plan_flaw.h"
#include "passes/plan_memory.h"
#include "passes/plan_options.h"
#include "passes/registry.h"

namespace tpc {

Plan one_rank_plan(Graph model, const OptimizerSettings& optimizer) {
  CompileOptions options;
  options.optimizer = optimizer;
  DiagnosticSink ignored;
  PassManager passes(options, ignored);
  Graph step;
  for (const PassInfo& pass : all_passes()) {
    // Other plans may make a sum before they round it: here, too, it is a tensor of its own.
    if (pass.name == "merge-casts") continue;
    model = passes.run(pass.name, std::move(model));
    if (pass.name == "apply-precision") step = model;
  }
  Plan plan = emit_plan(model, plan_options(options));
  plan_memory(plan);
  TPC_CHECK(!find_plan_flaw(plan, step), "the plan of \"{}\" on one rank is not its model's", plan.model_name);
  return plan;
}

}  // namespace tpc

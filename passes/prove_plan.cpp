#include "passes/prove_plan.h"

#include "passes/pipeline.h"
#include "passes/plan_flaw.h"

namespace tpc {

void prove_plan(const Plan& plan, Graph model, const OptimizerSettings& optimizer, const std::string& file) {
  CompileOptions options;
  options.optimizer = optimizer;
  std::optional<verify::Flaw> flaw = find_plan_flaw(plan, differentiated(std::move(model), options));
  if (flaw) refuse_plan(plan, *flaw, "the plan is not the model's", file);
}

}  // namespace tpc

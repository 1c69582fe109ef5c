#include "passes/prove_plan.h"

#include <fmt/format.h>

#include "compiler/core/diagnostic.h"
#include "passes/pipeline.h"
#include "passes/plan_flaw.h"

namespace tpc {
void prove_plan(const Plan& plan, Graph model, const OptimizerSettings& optimizer, const std::string& file) {
  CompileOptions options;
  options.optimizer = optimizer;
  std::optional<verify::Flaw> flaw = find_plan_flaw(plan, differentiated(std::move(model), options));
  if (!flaw) return;
  if (flaw->step < 0) throw UserError(SourceLoc{file, ""}, "the plan is not the model's: " + flaw->message);
  const PlanStep& wrong = plan.steps[static_cast<size_t>(flaw->step)];
  throw UserError(SourceLoc{file, fmt::format("/steps/{}", flaw->step)},
                  fmt::format("the plan is not the model's: \"{}\" ({}, {}): {}", wrong.layer, op_name(wrong.op),
                              to_string(wrong.phase), flaw->message));
}

}  // namespace tpc

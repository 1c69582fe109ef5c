#include "passes/prove_plan.h"

#include <fmt/format.h>

#include "compiler/core/diagnostic.h"
#include "compiler/verify/plan_proof.h"
#include "passes/pipeline.h"

namespace tpc {

void prove_plan(const Plan& plan, Graph model, const OptimizerSettings& optimizer, const std::string& file) {
  CompileOptions options;
  options.optimizer = optimizer;
  const Graph one_rank = differentiated(std::move(model), options);
  std::optional<verify::Flaw> flaw = verify::find_flaw(verify::ValueNumbers(one_rank), plan);
  if (!flaw) return;
  if (flaw->step < 0) throw UserError(SourceLoc{file, ""}, "the plan is not the model's: " + flaw->message);
  const PlanStep& wrong = plan.steps[static_cast<size_t>(flaw->step)];
  throw UserError(SourceLoc{file, fmt::format("/steps/{}", flaw->step)},
                  fmt::format("the plan is not the model's: \"{}\" ({}, {}): {}", wrong.layer, op_name(wrong.op),
                              to_string(wrong.phase), flaw->message));
}

}  // namespace tpc

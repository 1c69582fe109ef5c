#include "passes/prove_numerically.h"

#include <fmt/format.h>

#include <optional>

#include "compiler/core/diagnostic.h"
#include "compiler/verify/numeric/numeric_proof.h"
#include "passes/one_rank_plan.h"

namespace tpc {

int64_t prove_numerically(const Plan& plan, Graph model, const OptimizerSettings& optimizer, const std::string& file) {
  verify::NumericCount count;
  std::optional<verify::NumericFlaw> flaw;
  try {
    flaw = verify::numeric_flaw(one_rank_plan(std::move(model), optimizer), plan, &count);
  } catch (const verify::TooMuchWork& too_much) {
    throw UserError(SourceLoc{file, ""}, too_much.message);
  }
  if (!flaw) return count.numbers;
  if (flaw->step < 0) throw UserError(SourceLoc{file, ""}, "the plan is not the model's: " + flaw->message);
  const PlanStep& wrong = plan.steps[static_cast<size_t>(flaw->step)];
  throw UserError(SourceLoc{file, fmt::format("/steps/{}", flaw->step)},
                  fmt::format("the plan computes other numbers: \"{}\" ({}, {}): {}", wrong.layer, op_name(wrong.op),
                              to_string(wrong.phase), flaw->message));
}

}  // namespace tpc

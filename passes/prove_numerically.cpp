#include "passes/prove_numerically.h"

#include <optional>

#include "compiler/core/diagnostic.h"
#include "compiler/verify/numeric/numeric_proof.h"
#include "passes/one_rank_plan.h"
#include "passes/plan_flaw.h"

namespace tpc {

int64_t prove_numerically(const Plan& plan, Graph model, const OptimizerSettings& optimizer, const std::string& file) {
  verify::NumericCount count;
  std::optional<verify::Flaw> flaw;
  try {
    flaw = verify::numeric_flaw(one_rank_plan(std::move(model), optimizer), plan, &count);
  } catch (const verify::TooMuchWork& too_much) {
    throw UserError(SourceLoc{file, ""}, too_much.message);
  }
  if (flaw) refuse_plan(plan, *flaw, "the plan computes other numbers", file);
  return count.numbers;
}

}  // namespace tpc

/// The proof of a plan by exact numbers, as programs ask for it.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/ir/optimizer_settings.h"
#include "compiler/plan/plan.h"

namespace tpc {

/// Executes `plan`, as it is, and `model`'s one-rank step at tiny shapes in exact numbers (verify::numeric_flaw);
/// returns how many numbers were compared. Throws UserError with the place in `file` of the first step of `plan` that
/// makes others, or when the plan is too large to be executed. `model` is as the frontend makes it.
int64_t prove_numerically(const Plan& plan, Graph model, const OptimizerSettings& optimizer, const std::string& file);

}  // namespace tpc

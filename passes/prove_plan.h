/// The proof of a plan against its model, as programs ask for it.
#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/ir/optimizer_settings.h"
#include "compiler/plan/plan.h"

namespace tpc {

/// Throws UserError with the place in `file` (of the form that write_plan gives) of the first thing that is wrong
/// (find_plan_flaw). `model` is as the frontend makes it.
void prove_plan(const Plan& plan, Graph model, const OptimizerSettings& optimizer, const std::string& file);

}  // namespace tpc

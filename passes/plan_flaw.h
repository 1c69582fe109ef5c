/// The first thing that is wrong with a plan of a model.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/plan/plan.h"
#include "compiler/verify/flaw.h"

namespace tpc {

/// nullopt when it is proved that `plan` computes the step of its model (verify::find_step_flaw), that its steps find in
/// memory what they read (verify::find_buffer_flaw) and that the expanded program of every single rank is the plan's
/// (verify::RankProof). `one_rank` is the model's differentiated step. `plan` is sound (check_plan).
std::optional<verify::Flaw> find_plan_flaw(const Plan& plan, const Graph& one_rank);

/// Throws the flaw as a UserError at its step in `file` (of the form that write_plan gives). `what` is what the plan
/// does wrong: "the plan is not the model's".
[[noreturn]] void refuse_plan(const Plan& plan, const verify::Flaw& flaw, const std::string& what,
                              const std::string& file);

}  // namespace tpc

/// Whether ranks' programs can be executed at all.
#pragma once

#include <span>

#include "compiler/plan/rank_plan.h"

namespace tpc::verify {

/// Throws Flaw unless there is one program a rank, in order, every region lies in its tensor, every step is one
/// of the plan's, and collectives and masks name groups of ranks that have the rank itself at its position.
void check_programs(const Plan& plan, std::span<const RankPlan> programs);

}  // namespace tpc::verify

/// A plan as a person reads it on the terminal.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/plan/plan.h"

namespace tpc {

/// Layers as rows with their placements, collectives in between, totals at the end. Blocks that differ by their number
/// only are told once.
std::string plan_text(const Plan& plan);

/// The program of one rank: every step with the part of each tensor that the rank holds, its group, and what it
/// receives.
std::string rank_text(const Plan& plan, int64_t rank);

}  // namespace tpc

/// What each choice for one variable costs.
#pragma once

#include <vector>

#include "passes/solver/elimination.h"

namespace tpc {

/// For each label of the variable the least cost of an assignment with it, kInfeasible where there is none; by one
/// elimination in which the variable comes last. Empty when that passes max_entries. options.last_variable is ignored.
std::vector<Cost> min_marginals(const CostNetwork& network, int variable, const SolveOptions& options = {});

}  // namespace tpc

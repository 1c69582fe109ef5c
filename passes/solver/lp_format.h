/// Cost networks as integer programs, for outside solvers.
#pragma once

#include <string>

#include "passes/solver/cost_network.h"

namespace tpc {

/// The network as an integer program in CPLEX LP format (cbc, glpsol, HiGHS and others read it), of the same optimum:
/// binary x_<variable>_<label> of which one per variable is 1; per factor of two or more variables a nonnegative
/// y_<factor>_<entry> for every feasible entry, whose marginals are its variables' x. Costs of single variables are on
/// x, those of none on the constant `one`. Costs are written as integers in full; solvers read doubles, so that sums
/// are exact below 2^53 only: the caller sees to that.
std::string lp_format(const CostNetwork& network);

}  // namespace tpc

/// Least-cost assignments of networks that are too large for plain elimination, still exactly.
#pragma once

#include "passes/solver/elimination.h"

namespace tpc {

/// As solve, for networks whose buckets are too large: in rounds, raises lower bounds on the cost of each label (see
/// dual_bound.h), looks for a cheap assignment by eliminating with the labels of least bounds alone, and removes every
/// label whose bound is not below its cost; then eliminates what is left. When that passes max_entries after the
/// bounds have stopped to improve: kBounded with the cheapest assignment found, or kTooLarge when none was. The
/// assignment depends on the network alone, but is not always the one that solve returns among equally cheap ones.
Solution solve_by_bounds(const CostNetwork& network, const SolveOptions& options = {});

/// Entries x labels of the largest bucket up to which plain elimination is faster than the bounds.
inline constexpr int64_t kPlainEntries = int64_t{1} << 26;

/// solve up to buckets of kPlainEntries (and max_entries), else solve_by_bounds.
Solution solve_exactly(const CostNetwork& network, const SolveOptions& options = {});

}  // namespace tpc

/// The cheapest plan that fits, where only a built plan tells whether it does.
#pragma once

#include <functional>
#include <optional>

#include "passes/strategies/search_solution.h"

namespace tpc {

/// Builds the plan of a solution; bytes that it is above the limit, 0 or less when it fits.
using Excess = std::function<int64_t(const SearchSolution&)>;

/// The best by solve_cheapest() when it fits, else the lowest price among the solutions tried that fit; absent when
/// none does.
///
/// Walks along the corners of the convex hull of price against memory to the edge between a corner that is too large
/// and one that fits; on it, pins the first decisions as in the former and solves the others anew, as many as fit.
/// Every optimum met on the way bounds what a plan of a given memory can cost: where the best did not fit, is_limited
/// is set, and price_bound is of all plans with no more memory, by account, than the one returned has; a price of
/// memory is then none of it.
struct LimitedSolution {
  SearchSolution solution;
  bool is_limited = false;
};
/// `schemes`: labels of known schemes; the same is done among the assignments that have them, which are fewer.
std::optional<LimitedSolution> solve_within(const SearchNetwork& network, double memory_price,
                                            const std::vector<FixedLabels>& schemes, const Excess& excess);

}  // namespace tpc

/// Solving a search network: the cheapest plan, the cheapest within a limit on memory, and the front of both.
#pragma once

#include <optional>
#include <vector>

#include "passes/pass.h"
#include "passes/strategies/search_network.h"

namespace tpc {

struct SearchSolution {
  std::vector<int> assignment;
  Charge charge;
  /// No assignment that was asked for has a lower price (with a price of memory: than what the bound on the sum
  /// leaves).
  int64_t price_bound = 0;
  /// Lower bound on the weighted sum of charges that was minimised.
  Cost weighted_bound = 0;
  /// Of the solver's largest bucket: what another solution of the same network would take.
  int64_t effort = 0;
};

/// Least price * 1000 + memory_price * 1000 * memory, then least memory, then fewest collectives. An optimum comes with
/// a certificate that a separate checker has accepted; where no solver finds one, the best assignment found with a
/// bound.
///
/// With a memory limit: the two neighbouring optima for some price of memory (corners of the convex hull of price
/// against memory) between which it lies, the first layers as in the cheaper one and the others as in the smaller, as
/// many as fit; and the bound that the corners give. When even the smallest plan is larger: that one, bounded by the
/// cheapest of all. UserError when the space is too large for any answer.
SearchSolution solve_within_memory(const SearchNetwork& network, const SearchOptions& options);

/// For advice: the optimum at a price of memory, the gradient norm's sums as partial sums, without proof; nullopt where
/// that takes long (more than two axes, mostly).
std::optional<SearchSolution> solve_quickly(const SearchNetwork& network, double memory_price = 0);

/// The corners of the convex hull of price against memory, by increasing memory; at most `most` of them.
std::vector<SearchSolution> price_memory_front(const SearchNetwork& network, size_t most);

}  // namespace tpc

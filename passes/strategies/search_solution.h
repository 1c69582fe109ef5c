/// Solving a search network: the cheapest plan, and the front of price against memory.
#pragma once

#include <functional>
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
  /// What was minimised, and a lower bound on that weighted sum of charges.
  ChargeOrder order;
  Cost weighted_bound = 0;
  /// No assignment has a lower weighted sum.
  bool is_optimal = true;
  /// Of the solver's largest bucket: what another solution of the same network would take.
  int64_t effort = 0;
};

/// Least price * 1000 + memory_price * 1000 * memory, then least memory, then fewest collectives. An optimum comes with
/// a certificate that a separate checker has accepted; where no solver finds one, the best assignment found with a
/// bound. UserError when the space is too large for any answer.
SearchSolution solve_cheapest(const SearchNetwork& network, double memory_price);

/// The same under any order of charges.
SearchSolution solve_in_order(const SearchNetwork& network, ChargeOrder order);

/// price_weight * price + memory_weight * memory.
Cost weighted(const Charge& charge, ChargeOrder order);

/// Weights under which both corners cost the same: what lies below the line between them is found with these. `cheap`
/// has the lower price, `small` the less memory.
ChargeOrder order_between(const SearchSolution& cheap, const SearchSolution& small);

/// For advice: the optimum at a price of memory, the gradient norm's sums as partial sums, without proof; nullopt where
/// that takes long (more than two axes, mostly).
std::optional<SearchSolution> solve_quickly(const SearchNetwork& network, double memory_price = 0);

/// The corners of the convex hull of price against memory, by increasing memory; at most `most` of them. `progress`,
/// unless it is empty, is told how many are known.
std::vector<SearchSolution> hull_corners(const SearchNetwork& network, size_t most,
                                         const std::function<void(size_t)>& progress = nullptr);

}  // namespace tpc

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
  /// leaves). 0 where nothing is known.
  int64_t price_bound = 0;
  /// Lower bound on the weighted sum of charges that was minimised; 0 where nothing is known.
  Cost weighted_bound = 0;
  /// No assignment has a lower weighted sum.
  bool is_optimal = false;
  /// Of the solver's largest bucket: what another solution of the same network would take.
  int64_t effort = 0;
};

/// Least price * 1000 + memory_price * 1000 * memory, then least memory, then fewest collectives. An optimum comes with
/// a certificate that a separate checker has accepted; where no solver finds one, the best assignment found with a
/// bound. UserError when the space is too large for any answer.
SearchSolution solve_cheapest(const SearchNetwork& network, double memory_price);

/// The same under any order of charges, of the assignments with the labels that `fixed` gives (empty: of all). nullopt
/// where the space is too large for any answer, or has no assignment.
std::optional<SearchSolution> try_in_order(const SearchNetwork& network, ChargeOrder order,
                                           const FixedLabels& fixed = {});

/// price_weight * price + memory_weight * memory.
Cost weighted(const Charge& charge, ChargeOrder order);

/// Weights under which both corners cost the same: what lies below the line between them is found with these. `cheap`
/// has the lower price, `small` the less memory.
ChargeOrder order_between(const SearchSolution& cheap, const SearchSolution& small);

/// For advice: the optimum at a price of memory, the gradient norm's sums as partial sums, without proof; nullopt where
/// that takes long (more than two axes, mostly).
std::optional<SearchSolution> solve_quickly(const SearchNetwork& network, double memory_price = 0);

/// No assignment has a lower weighted sum of charges than `least`.
struct ChargeBound {
  ChargeOrder order;
  Cost least = 0;
};

/// The convex hull of price against memory.
struct Hull {
  /// By increasing memory.
  std::vector<SearchSolution> corners;
  /// Of every optimum met on the way.
  std::vector<ChargeBound> bounds;
  /// There are no more corners.
  bool is_complete = true;
  /// No assignment lies below a line between two neighbours.
  bool is_proved = true;

  /// The least price that an assignment with at most `memory` can have.
  int64_t price_bound(int64_t memory) const;
};

/// At most `most` corners, at least 2, of the assignments with the labels that `fixed` gives (empty: of all). Where the
/// least memory cannot be found, the hull begins at a high price of memory. `progress`, unless it is empty, is told how
/// many corners are known. No corners: no solver found any.
Hull search_hull(const SearchNetwork& network, size_t most, const FixedLabels& fixed = {},
                 const std::function<void(size_t)>& progress = nullptr);

}  // namespace tpc

#include "passes/strategies/search_solution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/core/check.h"
#include "passes/solver/pruned_elimination.h"

namespace tpc {
namespace {

/// Prices of memory are rational, in thousandths.
constexpr int64_t kPriceScale = 1000;
/// Buckets of a search that takes a fraction of a second.
constexpr int64_t kQuickEntries = int64_t{1} << 22;

Cost weighted(const Charge& charge, ChargeOrder order) {
  return Cost{order.price_weight} * charge.price + Cost{order.memory_weight} * charge.memory;
}

SearchSolution solved(const SearchNetwork& source, ChargeOrder order) {
  SearchSolution best;
  Cost least = kInfeasible;
  Cost least_bound = kInfeasible;
  for (int norm_way = 0; norm_way < source.num_norm_ways(); ++norm_way) {
    CostNetwork network = source.network(order, norm_way);
    Solution solution = solve_exactly(network);
    if (solution.status == SolveStatus::kTooLarge) refuse_too_many_choices();
    TPC_CHECK(solution.status != SolveStatus::kInfeasible, "the search network has no assignment");
    Cost bound = solution.cost;
    if (solution.status == SolveStatus::kBounded) {
      bound = solution.statistics.lower_bound;
    } else if (auto flaw = refute(solution.certificate, network, solution.assignment)) {
      TPC_UNREACHABLE("the certificate of the search is refuted: {}", *flaw);
    }
    least_bound = std::min(least_bound, bound);
    best.effort = std::max(best.effort, solution.statistics.largest_bucket);
    if (solution.cost >= least) continue;
    least = solution.cost;
    best.assignment = source.with_norm_way(std::move(solution.assignment), norm_way);
  }
  best.charge = source.charge(best.assignment);
  best.weighted_bound = SearchNetwork::primary_charge(least_bound, order);
  best.price_bound = best.charge.price;
  if (least_bound < least && order.price_weight > 0) {
    // Of the weighted sum, all that it may be less goes to the price.
    Cost gap = weighted(best.charge, order) - best.weighted_bound;
    Cost price_gap = (gap + order.price_weight - 1) / order.price_weight;
    best.price_bound = static_cast<int64_t>(std::max(Cost{0}, best.charge.price - std::max(price_gap, Cost{1})));
  }
  return best;
}

ChargeOrder order_of(double memory_price) {
  if (memory_price == 0) return kCheapest;
  return {kPriceScale, std::llround(memory_price * static_cast<double>(kPriceScale))};
}

/// Weights under which both corners cost the same: what lies below the line between them is found with these.
ChargeOrder order_between(const SearchSolution& cheap, const SearchSolution& small) {
  int64_t price = small.charge.price - cheap.charge.price;
  int64_t memory = cheap.charge.memory - small.charge.memory;
  int64_t divisor = std::gcd(price, memory);
  price /= divisor;
  memory /= divisor;
  // Weights of 30 bits keep the weighted sum within its digits; rounded, they are some line all the same.
  while (std::max(price, memory) >= (int64_t{1} << 30)) {
    price = (price + 1) / 2;
    memory = (memory + 1) / 2;
  }
  return {memory, price};
}

/// The least price that a plan within `limit` can have, given that no plan costs less than `least` under `order`.
int64_t price_bound(Cost least, ChargeOrder order, int64_t limit) {
  Cost rest = least - Cost{order.memory_weight} * limit;
  if (rest <= 0) return 0;
  return static_cast<int64_t>((rest + order.price_weight - 1) / order.price_weight);
}

/// Between two corners: the first layers as in `cheap`, which is too large, the rest solved anew; as many as fit. Both
/// corners cost the same under `order`, so that a mixture costs little more than either.
SearchSolution mixture(const SearchNetwork& source, const SearchSolution& cheap, const SearchSolution& small,
                       ChargeOrder order, int64_t limit) {
  int num_layers = 0;
  for (size_t v = 0; v < cheap.assignment.size(); ++v)
    num_layers = std::max(num_layers, source.layer(static_cast<int>(v)) + 1);
  const CostNetwork unpinned = source.network(order);
  SearchSolution best = small;
  int low = 0;
  int high = num_layers;  // the most layers that fit is in [low, high)
  while (low + 1 < high) {
    int count = (low + high) / 2;
    CostNetwork network = unpinned;
    for (size_t v = 0; v < cheap.assignment.size(); ++v) {
      auto variable = static_cast<int>(v);
      int labels = network.num_labels(variable);
      if (source.layer(variable) >= count || labels == 1) continue;
      std::vector<Cost> entries(static_cast<size_t>(labels), kInfeasible);
      entries[static_cast<size_t>(cheap.assignment[v])] = 0;
      network.add_factor({variable}, network.add_table({labels}, std::move(entries)));
    }
    Solution solution = solve_exactly(network);
    bool fits = false;
    if (solution.status == SolveStatus::kOptimal || solution.status == SolveStatus::kBounded) {
      SearchSolution mixed;
      mixed.assignment = source.with_norm_way(std::move(solution.assignment), 0);
      mixed.charge = source.charge(mixed.assignment);
      fits = mixed.charge.memory <= limit;
      if (fits && mixed.charge < best.charge) best = std::move(mixed);
    }
    (fits ? low : high) = count;
  }
  return best;
}

}  // namespace

SearchSolution solve_within_memory(const SearchNetwork& network, const SearchOptions& options) {
  SearchSolution cheap = solved(network, order_of(options.memory_price));
  if (options.memory_limit == 0 || cheap.charge.memory <= options.memory_limit) return cheap;
  SearchSolution small = solved(network, kSmallest);
  int64_t bound = cheap.price_bound;
  if (small.charge.memory > options.memory_limit) {
    small.price_bound = std::min(bound, small.charge.price);
    return small;
  }
  // A bound that is not reached can leave a smaller plan that is cheaper too.
  while (small.charge.price > cheap.charge.price && small.charge.memory < cheap.charge.memory) {
    ChargeOrder order = order_between(cheap, small);
    SearchSolution next = solved(network, order);
    bound = std::max(bound, price_bound(next.weighted_bound, order, options.memory_limit));
    Cost line = std::min(weighted(cheap.charge, order), weighted(small.charge, order));
    if (weighted(next.charge, order) >= line) {
      small = mixture(network, cheap, small, order, options.memory_limit);
      break;
    }
    (next.charge.memory <= options.memory_limit ? small : cheap) = std::move(next);
  }
  small.price_bound = std::min(bound, small.charge.price);
  return small;
}

std::optional<SearchSolution> solve_quickly(const SearchNetwork& network, double memory_price) {
  Solution solution = solve(network.network(order_of(memory_price)), {.max_entries = kQuickEntries});
  if (solution.status != SolveStatus::kOptimal) return std::nullopt;
  SearchSolution result;
  result.assignment = network.with_norm_way(std::move(solution.assignment), 0);
  result.charge = network.charge(result.assignment);
  return result;
}

std::vector<SearchSolution> price_memory_front(const SearchNetwork& network, size_t most) {
  std::vector<SearchSolution> corners{solved(network, kSmallest)};
  SearchSolution cheap = solved(network, kCheapest);
  bool is_one = cheap.charge.memory <= corners[0].charge.memory || corners[0].charge.price <= cheap.charge.price;
  if (is_one) return {cheap};
  corners.push_back(std::move(cheap));
  // Widest gaps first, so that a cut front still shows its shape.
  std::vector<bool> is_closed{false};
  while (corners.size() < most) {
    size_t widest = corners.size();
    for (size_t i = 0; i + 1 < corners.size(); ++i) {
      auto gap = [&](size_t at) { return corners[at + 1].charge.memory - corners[at].charge.memory; };
      if (!is_closed[i] && (widest == corners.size() || gap(i) > gap(widest))) widest = i;
    }
    if (widest == corners.size()) break;
    ChargeOrder order = order_between(corners[widest + 1], corners[widest]);
    SearchSolution next = solved(network, order);
    Cost line = std::min(weighted(corners[widest].charge, order), weighted(corners[widest + 1].charge, order));
    if (weighted(next.charge, order) >= line) {
      is_closed[widest] = true;
      continue;
    }
    auto at = static_cast<std::ptrdiff_t>(widest) + 1;
    corners.insert(corners.begin() + at, std::move(next));
    is_closed.insert(is_closed.begin() + at, false);
  }
  return corners;
}

}  // namespace tpc

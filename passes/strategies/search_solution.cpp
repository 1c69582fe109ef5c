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

ChargeOrder order_of(double memory_price) {
  if (memory_price == 0) return kCheapest;
  return {kPriceScale, std::llround(memory_price * static_cast<double>(kPriceScale))};
}

}  // namespace

Cost weighted(const Charge& charge, ChargeOrder order) {
  return Cost{order.price_weight} * charge.price + Cost{order.memory_weight} * charge.memory;
}

SearchSolution solve_in_order(const SearchNetwork& source, ChargeOrder order) {
  SearchSolution best;
  Cost least = kInfeasible;
  Cost least_bound = kInfeasible;
  for (int norm_way = 0; norm_way < source.num_norm_ways(); ++norm_way) {
    FixedLabels fixed = source.norm_way(norm_way);
    CostNetwork network = source.network(order, fixed);
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
    best.assignment = with_fixed(std::move(solution.assignment), fixed);
  }
  best.charge = source.charge(best.assignment);
  best.order = order;
  best.weighted_bound = SearchNetwork::primary_charge(least_bound, order);
  best.price_bound = best.charge.price;
  best.is_optimal = least_bound == least;
  if (!best.is_optimal && order.price_weight > 0) {
    // Of the weighted sum, all that it may be less goes to the price.
    Cost gap = weighted(best.charge, order) - best.weighted_bound;
    Cost price_gap = (gap + order.price_weight - 1) / order.price_weight;
    best.price_bound = static_cast<int64_t>(std::max(Cost{0}, best.charge.price - std::max(price_gap, Cost{1})));
  }
  return best;
}

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

SearchSolution solve_cheapest(const SearchNetwork& network, double memory_price) {
  return solve_in_order(network, order_of(memory_price));
}

std::optional<SearchSolution> solve_quickly(const SearchNetwork& network, double memory_price) {
  FixedLabels fixed = network.norm_way(0);
  Solution solution = solve(network.network(order_of(memory_price), fixed), {.max_entries = kQuickEntries});
  if (solution.status != SolveStatus::kOptimal) return std::nullopt;
  SearchSolution result;
  result.assignment = with_fixed(std::move(solution.assignment), fixed);
  result.charge = network.charge(result.assignment);
  return result;
}

std::vector<SearchSolution> hull_corners(const SearchNetwork& network, size_t most,
                                         const std::function<void(size_t)>& progress) {
  std::vector<SearchSolution> corners{solve_in_order(network, kSmallest)};
  SearchSolution cheap = solve_in_order(network, kCheapest);
  bool is_one = cheap.charge.memory <= corners[0].charge.memory || corners[0].charge.price <= cheap.charge.price;
  if (is_one) return {cheap};
  corners.push_back(std::move(cheap));
  // Widest gaps first, so that a cut front still shows its shape.
  std::vector<bool> is_closed{false};
  while (corners.size() < most) {
    if (progress) progress(corners.size());
    size_t widest = corners.size();
    for (size_t i = 0; i + 1 < corners.size(); ++i) {
      auto gap = [&](size_t at) { return corners[at + 1].charge.memory - corners[at].charge.memory; };
      if (!is_closed[i] && (widest == corners.size() || gap(i) > gap(widest))) widest = i;
    }
    if (widest == corners.size()) break;
    ChargeOrder order = order_between(corners[widest + 1], corners[widest]);
    SearchSolution next = solve_in_order(network, order);
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

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

/// Least memory, or where that cannot be found, memory that is dear.
constexpr ChargeOrder kSmallOrders[] = {kSmallest, {1, 1000}, {1, 30}, {1, 1}};

ChargeOrder order_of(double memory_price) {
  if (memory_price == 0) return kCheapest;
  return {kPriceScale, std::llround(memory_price * static_cast<double>(kPriceScale))};
}

}  // namespace

Cost weighted(const Charge& charge, ChargeOrder order) {
  return Cost{order.price_weight} * charge.price + Cost{order.memory_weight} * charge.memory;
}

std::optional<SearchSolution> try_in_order(const SearchNetwork& source, ChargeOrder order, const FixedLabels& fixed) {
  SearchSolution best;
  Cost least = kInfeasible;
  Cost least_bound = kInfeasible;
  for (int norm_way = 0; norm_way < source.num_norm_ways(); ++norm_way) {
    FixedLabels labels = source.norm_way(norm_way);
    if (!fixed.empty()) labels = with_fixed(std::move(labels), fixed);
    CostNetwork network = source.network(order, labels);
    Solution solution = solve_exactly(network);
    if (solution.status == SolveStatus::kTooLarge) return std::nullopt;
    if (solution.status == SolveStatus::kInfeasible) continue;
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
    best.assignment = with_fixed(std::move(solution.assignment), labels);
  }
  if (least >= kInfeasible) return std::nullopt;
  best.charge = source.charge(best.assignment);
  best.weighted_bound = source.primary_charge(least_bound, order);
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
  TPC_CHECK(price > 0 && memory > 0, "no line falls between {} and {} bytes of memory", cheap.charge.memory,
            small.charge.memory);
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
  std::optional<SearchSolution> best = try_in_order(network, order_of(memory_price));
  if (!best) refuse_too_many_choices();
  return std::move(*best);
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

Hull search_hull(const SearchNetwork& network, size_t most, const FixedLabels& fixed,
                 const std::function<void(size_t)>& progress) {
  Hull hull;
  auto solve = [&](ChargeOrder order) {
    std::optional<SearchSolution> optimum = try_in_order(network, order, fixed);
    if (optimum) hull.bounds.push_back({order, optimum->weighted_bound});
    return optimum;
  };
  std::vector<SearchSolution>& corners = hull.corners;
  std::optional<SearchSolution> cheap = solve(kCheapest);
  if (!cheap) return hull;
  std::optional<SearchSolution> smallest;
  for (const ChargeOrder& order : kSmallOrders) {
    smallest = solve(order);
    if (smallest) break;
  }
  hull.is_complete = hull.bounds.back().order.price_weight == 0;
  hull.is_proved = cheap->is_optimal && smallest && smallest->is_optimal;
  // Where bounds are not reached, either may be better than the other in both.
  bool is_smaller = smallest && smallest->charge.memory < cheap->charge.memory;
  if (smallest && (is_smaller || smallest->charge.price < cheap->charge.price)) corners.push_back(std::move(*smallest));
  if (corners.empty() || cheap->charge.price < corners[0].charge.price) {
    if (!is_smaller) corners.clear();
    corners.push_back(std::move(*cheap));
  }
  std::vector<bool> is_closed(corners.size() - 1, false);
  while (true) {
    if (progress) progress(corners.size());
    // Widest gaps first, so that a cut front still shows its shape.
    size_t widest = corners.size();
    for (size_t i = 0; i + 1 < corners.size(); ++i) {
      auto gap = [&](size_t at) { return corners[at + 1].charge.memory - corners[at].charge.memory; };
      if (!is_closed[i] && (widest == corners.size() || gap(i) > gap(widest))) widest = i;
    }
    if (widest == corners.size()) break;
    if (corners.size() == most) {
      hull.is_complete = false;
      break;
    }
    const SearchSolution& small = corners[widest];
    const SearchSolution& next_cheap = corners[widest + 1];
    ChargeOrder order = order_between(next_cheap, small);
    std::optional<SearchSolution> next = solve(order);
    Cost line = std::min(weighted(small.charge, order), weighted(next_cheap.charge, order));
    bool is_between = next && next_cheap.charge.price < next->charge.price && next->charge.price < small.charge.price &&
                      small.charge.memory < next->charge.memory && next->charge.memory < next_cheap.charge.memory;
    if (!is_between || weighted(next->charge, order) >= line) {
      is_closed[widest] = true;
      hull.is_proved = hull.is_proved && next && next->weighted_bound >= line;
      continue;
    }
    auto at = static_cast<std::ptrdiff_t>(widest) + 1;
    corners.insert(corners.begin() + at, std::move(*next));
    is_closed.insert(is_closed.begin() + at, false);
  }
  return hull;
}

int64_t Hull::price_bound(int64_t memory) const {
  int64_t least = 0;
  for (const ChargeBound& bound : bounds) {
    Cost rest = bound.least - Cost{bound.order.memory_weight} * memory;
    if (rest <= 0 || bound.order.price_weight == 0) continue;
    Cost price = (rest + bound.order.price_weight - 1) / bound.order.price_weight;
    least = std::max(least, static_cast<int64_t>(price));
  }
  return least;
}

}  // namespace tpc

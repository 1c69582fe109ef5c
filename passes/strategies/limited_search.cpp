#include "passes/strategies/limited_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "passes/solver/pruned_elimination.h"

namespace tpc {
namespace {

constexpr size_t kMostCorners = 16;
/// The edge around the limit is cut into this many parts at most, the way from a farther corner into these.
constexpr size_t kFinestCut = 256;
constexpr size_t kCoarsestCut = 64;
/// Parts of the model that are improved one by one, at most.
constexpr int kMostParts = 32;
/// Layers that may be unlike both of two plans where one passes into the other.
constexpr int kFreeLayers = 3;
/// One of so many parts of the price is not worth looking for, nor room of one of so many of the memory worth filling.
constexpr int64_t kGainParts = 2000;
constexpr int64_t kSlackParts = 50;
/// One of so many parts of memory's weight tips the balance.
constexpr int64_t kTilt = 1000;
/// Of models from about 30 layers on.
constexpr int64_t kDeepDecisions = 4000;

class LimitedSearch {
 public:
  LimitedSearch(const SearchNetwork& network, const Excess& excess) : network_(network), excess_(excess) {}

  std::optional<SearchSolution> run(const std::vector<FixedLabels>& schemes) {
    hull_ = search_hull(network_, kMostCorners);
    walk(hull_, {});
    for (const FixedLabels& scheme : schemes) {
      if (best_ && is_close()) break;
      walk(search_hull(network_, kMostCorners, scheme), scheme);
    }
    if (!best_ && !hull_.is_complete && hull_.corners.size() > 1) try_small_end(hull_.corners[1], hull_.corners[0]);
    if (!best_) return std::nullopt;
    // Account and arena differ, so that more of a cheaper corner can fit than of the nearest one.
    for (const SearchSolution& corner : hull_.corners) {
      const SearchSolution base = *best_;
      bool is_beyond = corner.charge.memory > base.charge.memory && corner.charge.price < base.charge.price;
      if (is_beyond && !is_close()) fill_edge(corner, order_between(corner, base), {}, &base);
    }
    if (is_notable(hull_.corners.back()) && !is_close()) improve_parts();
    best_->price_bound = std::min(best_->charge.price, hull_.price_bound(best_->charge.memory));
    return std::move(best_);
  }

 private:
  enum class Attempt : int {
    kFits,
    kNoCheaper,  ///< than the best so far: not built
    kFails,      ///< too large, or the solver found nothing
  };

  /// From the cheapest corner on until one fits, and along the edge to the one before it. `fixed`: what the hull's
  /// assignments share.
  void walk(const Hull& hull, const FixedLabels& fixed) {
    const SearchSolution* too_large = nullptr;
    for (size_t i = hull.corners.size(); i-- > 0;) {
      const SearchSolution& corner = hull.corners[i];
      if (best_ && !(corner.charge < best_->charge)) return;
      if (try_plan(corner)) {
        if (too_large != nullptr) search_between(*too_large, corner, fixed);
        return;
      }
      too_large = &corner;
    }
  }

  /// The corners between the two that hold least: by account `small` does, and does not fit.
  void try_small_end(SearchSolution cheap, const SearchSolution& small) {
    while (small.charge.price > cheap.charge.price && small.charge.memory < cheap.charge.memory) {
      ChargeOrder order = order_between(cheap, small);
      std::optional<SearchSolution> next = try_in_order(network_, order);
      if (!next || weighted(next->charge, order) >= weighted(cheap.charge, order)) return;
      hull_.bounds.push_back({order, next->weighted_bound});
      if (try_plan(*next)) return;
      cheap = std::move(*next);
    }
  }

  /// Along the edge from `cheap`, which is too large, to `small`, which fits; where not all corners are known, down to
  /// neighbouring ones first.
  void search_between(SearchSolution cheap, SearchSolution small, const FixedLabels& fixed) {
    auto is_edge = [&] { return small.charge.price > cheap.charge.price && small.charge.memory < cheap.charge.memory; };
    while (is_edge()) {
      ChargeOrder order = order_between(cheap, small);
      std::optional<SearchSolution> next = try_in_order(network_, order, fixed);
      if (!next) break;
      if (fixed.empty()) hull_.bounds.push_back({order, next->weighted_bound});
      Cost line = std::min(weighted(cheap.charge, order), weighted(small.charge, order));
      if (weighted(next->charge, order) >= line) break;
      bool fits = try_plan(*next);
      (fits ? small : cheap) = std::move(*next);
    }
    if (!is_edge()) return;
    // Both ends cost the same between them; a little more for memory, and what is solved anew is as in `small`.
    ChargeOrder order = order_between(cheap, small);
    order.memory_weight += 1 + order.memory_weight / kTilt;
    fill_edge(cheap, order, fixed, nullptr);
  }

  bool try_plan(const SearchSolution& solution) {
    int64_t excess = excess_(solution);
    if (excess > 0) return false;
    if (!best_ || solution.charge < best_->charge) {
      best_ = solution;
      slack_ = -excess;
    }
    return true;
  }

  /// As cheap as its memory allows, by account, and with hardly room for more, in a model so deep that a plan takes
  /// long to build and what lives within a layer, which account and arena differ by, is little of the whole.
  bool is_close() const {
    if (network_.num_decisions() < kDeepDecisions) return false;
    int64_t gap = best_->charge.price - hull_.price_bound(best_->charge.memory);
    return gap <= best_->charge.price / kGainParts && slack_ <= best_->charge.memory / kSlackParts;
  }

  /// Whether much could be won by a plan as cheap as `cheap`.
  bool is_notable(const SearchSolution& cheap) const {
    int64_t gain = best_->charge.price - cheap.charge.price;
    return gain > best_->charge.price / kGainParts;
  }

  /// The first decisions as in `cheap`, which is too large, the others solved anew (or as in `small`, when it is given,
  /// but for some layers between), as many as fit.
  void fill_edge(const SearchSolution& cheap, ChargeOrder order, const FixedLabels& scheme,
                 const SearchSolution* small) {
    if (!is_notable(cheap)) return;
    FixedLabels norm = network_.norm_way_of(cheap.assignment);
    if (!scheme.empty()) norm = with_fixed(std::move(norm), scheme);
    std::vector<int> decisions;
    for (size_t v = 0; v < norm.size(); ++v) {
      if (norm[v] < 0) decisions.push_back(static_cast<int>(v));
    }
    std::stable_sort(decisions.begin(), decisions.end(),
                     [&](int a, int b) { return network_.layer(a) < network_.layer(b); });
    size_t low = 0;
    size_t high = decisions.size();
    size_t step = 1 + decisions.size() / (small == nullptr ? kFinestCut : kCoarsestCut);
    while (low + step < high) {
      size_t count = (low + high) / 2;
      int last_free = network_.layer(decisions[count]) + kFreeLayers;
      FixedLabels fixed = norm;
      for (size_t i = 0; i < decisions.size(); ++i) {
        auto decision = static_cast<size_t>(decisions[i]);
        if (i < count) fixed[decision] = cheap.assignment[decision];
        if (i >= count && small != nullptr && network_.layer(decisions[i]) > last_free)
          fixed[decision] = small->assignment[decision];
      }
      (try_fixed(order, fixed) == Attempt::kFails ? high : low) = count;
    }
  }

  /// The cheapest for each part of the model in turn, the rest as in the best plan so far.
  void improve_parts() {
    int num_layers = 0;
    for (size_t v = 0; v < best_->assignment.size(); ++v)
      num_layers = std::max(num_layers, network_.layer(static_cast<int>(v)) + 1);
    int layers_of_part = 1 + (num_layers - 1) / kMostParts;
    for (int first = 0; first < num_layers; first += layers_of_part) {
      FixedLabels fixed = best_->assignment;
      for (size_t v = 0; v < fixed.size(); ++v) {
        int layer = network_.layer(static_cast<int>(v));
        bool is_free = first <= layer && layer < first + layers_of_part + kFreeLayers;
        if (is_free) fixed[v] = -1;
      }
      try_fixed(kCheapest, fixed);
    }
  }

  Attempt try_fixed(ChargeOrder order, const FixedLabels& fixed) {
    Solution solution = solve_exactly(network_.network(order, fixed));
    if (solution.status != SolveStatus::kOptimal && solution.status != SolveStatus::kBounded) return Attempt::kFails;
    SearchSolution mixed;
    mixed.assignment = with_fixed(std::move(solution.assignment), fixed);
    mixed.charge = network_.charge(mixed.assignment);
    if (!(mixed.charge < best_->charge)) return Attempt::kNoCheaper;
    return try_plan(mixed) ? Attempt::kFits : Attempt::kFails;
  }

  const SearchNetwork& network_;
  const Excess& excess_;
  Hull hull_;
  std::optional<SearchSolution> best_;
  int64_t slack_ = 0;  ///< how much below the limit the best is
};

}  // namespace

std::optional<LimitedSolution> solve_within(const SearchNetwork& network, double memory_price,
                                            const std::vector<FixedLabels>& schemes, const Excess& excess) {
  SearchSolution best = solve_cheapest(network, memory_price);
  if (excess(best) <= 0) return LimitedSolution{std::move(best), false};
  std::optional<SearchSolution> limited = LimitedSearch(network, excess).run(schemes);
  if (!limited) return std::nullopt;
  return LimitedSolution{std::move(*limited), true};
}

}  // namespace tpc

#include "passes/solver/pruned_elimination.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "passes/solver/dual_bound.h"
#include "passes/solver/elimination_order.h"
#include "passes/solver/elimination_run.h"
#include "passes/solver/reduction.h"

namespace tpc {
namespace {

constexpr int kSweeps = 24;     ///< of the dual bound, per round
constexpr int kMaxRounds = 40;  ///< the bounds settle well before
/// Buckets that are eliminated before the bounds: what they hold is then exact, which tightens the bounds a lot.
constexpr int64_t kFirstEntries = int64_t{1} << 18;
/// Buckets in the search for a cheap assignment.
constexpr int64_t kSearchEntries = int64_t{1} << 16;

class PrunedElimination {
 public:
  PrunedElimination(const CostNetwork& network, const SolveOptions& options) : options_(options), network_(&network) {
    for (int v = 0; v < network.num_variables(); ++v) {
      std::vector<int>& labels = labels_.emplace_back(static_cast<size_t>(network.num_labels(v)));
      std::iota(labels.begin(), labels.end(), 0);
    }
    statistics_.labels = count_labels();
  }

  Solution run() {
    bool improved = true;
    while (improved && !is_cheap(*network_, options_.max_entries, round_work()) && statistics_.prunings < kMaxRounds) {
      ++statistics_.prunings;
      reductions_.emplace_back();
      if (!drop_unsupported()) return infeasible();
      if (!first_) {
        if (!eliminate_first()) return infeasible();
        reductions_.emplace_back();
        if (!drop_unsupported()) return infeasible();
      }
      int64_t labels = count_labels();
      Cost gap = best_cost_ - bound_.bound;
      bound_ = dual_bound(*network_, std::exchange(bound_.messages, {}), kSweeps);
      if (bound_.bound >= kInfeasible) return infeasible();
      find_assignment();
      drop_costly();
      // Labels go in steps when the gap is small: a smaller gap is progress too.
      improved = count_labels() < labels - labels / 64 || best_cost_ - bound_.bound < gap - gap / 64;
    }
    return finish();
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }

  static bool is_cheap(const CostNetwork& network, int64_t largest_bucket, int64_t total) {
    EliminationOrder order = elimination_order(network, largest_bucket);
    return order.largest_bucket <= largest_bucket && order.total <= total;
  }

  /// About the number of entries that a round visits.
  int64_t round_work() const {
    int64_t entries = 0;
    for (const CostNetwork::Factor& factor : network_->factors()) {
      const CostTable& table = network_->tables()[index(factor.table)];
      entries += static_cast<int64_t>(table.entries.size() * 2 * table.sizes.size());
    }
    return entries * kSweeps;
  }

  int64_t count_labels() const {
    int64_t count = 0;
    for (const std::vector<int>& labels : labels_) count += static_cast<int64_t>(labels.size());
    return count;
  }

  /// False when a variable has no label left.
  bool drop_unsupported() {
    std::vector<Certificate::Unsupported> unsupported = unsupported_labels(*network_);
    KeptLabels kept = all_labels();
    std::vector<std::vector<bool>> dropped(kept.size());
    for (size_t v = 0; v < kept.size(); ++v) dropped[v].assign(kept[v].size(), false);
    for (const auto& [label, factor] : unsupported) dropped[index(label.variable)][index(label.label)] = true;
    for (size_t v = 0; v < kept.size(); ++v) {
      std::erase_if(kept[v], [&](int label) { return dropped[v][index(label)]; });
      if (kept[v].empty()) return false;
    }
    reductions_.back().unsupported = std::move(unsupported);
    keep(kept);
    return true;
  }

  /// Eliminates the variables of small buckets. False when no assignment is feasible.
  bool eliminate_first() {
    whole_ = std::move(reduced_);
    if (network_ == &reduced_) network_ = &whole_;
    int64_t limit = std::min(kFirstEntries, options_.max_entries);
    EliminationOrder order = elimination_order(*network_, limit);
    // The last one's bucket is above the limit.
    if (order.largest_bucket > limit) order.variables.pop_back();
    first_.emplace(*network_, options_.reuse_buckets, std::move(order));
    if (!first_->run()) return false;
    // From here on, `labels_` is about the network as it was before this.
    whole_labels_ = std::exchange(labels_, all_labels());
    if (first_->statistics().buckets == 0) return true;
    reduced_ = first_->left();
    network_ = &reduced_;
    Certificate certificate = first_->take_certificate();
    reductions_.back().buckets = std::move(certificate.buckets);
    reductions_.back().tables = std::move(certificate.tables);
    return true;
  }

  KeptLabels all_labels() const {
    KeptLabels kept;
    for (const std::vector<int>& labels : labels_) {
      std::vector<int>& all = kept.emplace_back(labels.size());
      std::iota(all.begin(), all.end(), 0);
    }
    return kept;
  }

  /// The labels whose bounds are below the limit, and those of the best assignment so far.
  KeptLabels labels_below(Cost limit) const {
    KeptLabels kept(labels_.size());
    for (size_t v = 0; v < kept.size(); ++v) {
      for (size_t x = 0; x < labels_[v].size(); ++x) {
        bool is_best = !best_.empty() && labels_[v][x] == best_[v];
        if (is_best || bound_.label_bounds[v][x] < limit) kept[v].push_back(static_cast<int>(x));
      }
    }
    return kept;
  }

  /// Eliminates with as many labels of least bounds as buckets of kSearchEntries hold. Bounds up to bound + bound / 2^k
  /// for growing k, half steps included: twice the margin may be ten times the labels.
  void find_assignment() {
    constexpr int kSteps = 64;
    auto limit_at = [&](int step) {
      Cost margin = std::max(bound_.bound, Cost{0}) >> (step / 2);
      return std::min(best_cost_, bound_.bound + (step % 2 == 0 ? margin : margin / 10 * 7) + 1);
    };
    int64_t largest = std::min(kSearchEntries, options_.max_entries);
    int64_t total = round_work() / 4;
    std::optional<CostNetwork> network;
    KeptLabels kept;
    int low = 0;
    int high = kSteps;  // the largest margin that fits is at a step in [low, high]
    while (low < high) {
      int step = (low + high) / 2;
      KeptLabels candidates = labels_below(limit_at(step));
      CostNetwork reduced = reduce_network(*network_, candidates);
      if (is_cheap(reduced, largest, total)) {
        high = step;
        network = std::move(reduced);
        kept = std::move(candidates);
      } else {
        low = step + 1;
      }
    }
    if (!network) return;
    Solution solution = solve(*network, options_);
    if (solution.status != SolveStatus::kOptimal || solution.cost >= best_cost_) return;
    best_cost_ = solution.cost;
    best_ = std::move(solution.assignment);
    translate(best_, kept);
    translate(best_, labels_);
  }

  void drop_costly() {
    KeptLabels kept = labels_below(best_cost_);
    Certificate::Reduction& reduction = reductions_.back();
    for (size_t v = 0; v < kept.size(); ++v) {
      auto next = kept[v].begin();
      for (int label = 0; label < static_cast<int>(labels_[v].size()); ++label) {
        if (next != kept[v].end() && *next == label) {
          ++next;
        } else {
          reduction.costly.push_back({static_cast<int>(v), label});
        }
      }
    }
    if (reduction.costly.empty()) return;
    reduction.messages = bound_.messages;
    keep(kept);
  }

  /// Goes on with these labels alone.
  void keep(const KeptLabels& kept) {
    select_messages(kept);
    bool all = true;
    for (size_t v = 0; v < kept.size(); ++v) {
      all = all && kept[v].size() == labels_[v].size();
      for (size_t i = 0; i < kept[v].size(); ++i) labels_[v][i] = labels_[v][index(kept[v][i])];
      labels_[v].resize(kept[v].size());
    }
    if (all) return;
    reduced_ = reduce_network(*network_, kept);
    network_ = &reduced_;
  }

  void select_messages(const KeptLabels& kept) {
    for (size_t f = 0; f < bound_.messages.size(); ++f) {
      std::vector<Cost> selected;
      size_t offset = 0;
      for (int variable : network_->factors()[f].scope) {
        for (int label : kept[index(variable)]) selected.push_back(bound_.messages[f][offset + index(label)]);
        offset += labels_[index(variable)].size();
      }
      bound_.messages[f] = std::move(selected);
    }
  }

  static void translate(std::vector<int>& assignment, const KeptLabels& labels) {
    for (size_t v = 0; v < labels.size(); ++v) assignment[v] = labels[v][index(assignment[v])];
  }

  Solution infeasible() const {
    Solution solution;
    solution.status = SolveStatus::kInfeasible;
    solution.statistics = statistics_;
    return solution;
  }

  Solution finish() {
    Solution solution = solve(*network_, options_);
    solution.statistics.prunings = statistics_.prunings;
    solution.statistics.labels = statistics_.labels;
    std::vector<bool> is_used(labels_.size(), false);
    for (const CostNetwork::Factor& factor : network_->factors()) {
      for (int variable : factor.scope) is_used[index(variable)] = true;
    }
    for (size_t v = 0; v < labels_.size(); ++v) {
      if (is_used[v]) solution.statistics.labels_left += static_cast<int64_t>(labels_[v].size());
    }
    // What was removed costs at least as much as the best.
    solution.statistics.lower_bound = std::min(bound_.bound, best_cost_);
    if (solution.status == SolveStatus::kTooLarge && !best_.empty()) {
      solution.status = SolveStatus::kBounded;
      solution.cost = best_cost_;
      solution.assignment = best_;
    } else if (solution.status == SolveStatus::kOptimal) {
      translate(solution.assignment, labels_);
    } else {
      return solution;
    }
    if (first_) {
      first_->complete(solution.assignment);
      translate(solution.assignment, whole_labels_);
    }
    if (solution.status == SolveStatus::kBounded) return solution;
    std::erase_if(reductions_, [](const Certificate::Reduction& r) {
      return r.unsupported.empty() && r.buckets.empty() && r.costly.empty();
    });
    solution.certificate.reductions = std::move(reductions_);
    return solution;
  }

  const SolveOptions& options_;
  const CostNetwork* network_;  // what is left
  CostNetwork reduced_;
  CostNetwork whole_;                 // before the first elimination, unless it is the original network
  std::optional<Elimination> first_;  // of the small buckets; refers to that
  KeptLabels labels_;                 // its numbers of the labels that are left
  KeptLabels whole_labels_;           // the original network's numbers of its labels
  DualBound bound_;
  Cost best_cost_ = kInfeasible;
  std::vector<int> best_;  // the cheapest assignment so far, in the same labels
  std::vector<Certificate::Reduction> reductions_;
  SolveStatistics statistics_;
};

}  // namespace

Solution solve_by_bounds(const CostNetwork& network, const SolveOptions& options) {
  return PrunedElimination(network, options).run();
}

Solution solve_exactly(const CostNetwork& network, const SolveOptions& options) {
  SolveOptions plain = options;
  plain.max_entries = std::min(options.max_entries, kPlainEntries);
  Solution solution = solve(network, plain);
  return solution.status == SolveStatus::kTooLarge ? solve_by_bounds(network, options) : solution;
}

}  // namespace tpc

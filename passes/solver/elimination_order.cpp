#include "passes/solver/elimination_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

namespace tpc {
namespace {

/// Products of domain sizes are compared by sums of logarithms, in units of 2^-20: integers, so that a sum does not
/// depend on the order of its terms and equal cliques compare equal in every layer.
int64_t scaled_log2(int num_labels) { return std::llround(std::ldexp(std::log2(num_labels), 20)); }

constexpr int64_t kLargestTotal = int64_t{1} << 62;

/// Compares like (log_entries, neighbours, variable), in one step.
__extension__ using Candidate = unsigned __int128;

Candidate make_candidate(int64_t log_entries, size_t neighbours, size_t variable) {
  return Candidate{static_cast<uint64_t>(log_entries)} << 64 | uint64_t{neighbours} << 32 | variable;
}

size_t variable_of(Candidate candidate) { return static_cast<uint32_t>(candidate); }

class OrderSearch {
 public:
  OrderSearch(const CostNetwork& network, int last_variable) : network_(network), last_variable_(last_variable) {
    auto count = static_cast<size_t>(network.num_variables());
    weight_.resize(count);
    for (size_t v = 0; v < count; ++v) weight_[v] = scaled_log2(network.num_labels(static_cast<int>(v)));
    log_entries_ = weight_;
    queued_.resize(count);
    eliminated_.assign(count, false);
    connect_factors();
  }

  EliminationOrder run(int64_t max_entries) {
    std::vector<Candidate> candidates;
    for (size_t v = 0; v < weight_.size(); ++v) {
      queued_[v] = candidate(v);
      if (weight_[v] > 0) candidates.push_back(queued_[v]);
    }
    queue_ = decltype(queue_)(std::greater<>{}, std::move(candidates));
    EliminationOrder order;
    while (!queue_.empty() && order.largest_bucket <= max_entries) {
      Candidate top = queue_.top();
      queue_.pop();
      size_t v = variable_of(top);
      if (eliminated_[v]) continue;
      if (candidate(v) != top) {
        enqueue(v);
        continue;
      }
      order.variables.push_back(static_cast<int>(v));
      order.width = std::max(order.width, static_cast<int>(neighbours_[v].size()));
      int64_t entries = bucket_entries(v);
      order.largest_bucket = std::max(order.largest_bucket, entries);
      order.total = std::min(order.total + std::min(entries, kLargestTotal), kLargestTotal);
      eliminate(v);
    }
    return order;
  }

 private:
  Candidate candidate(size_t v) const {
    if (static_cast<int>(v) == last_variable_) return make_candidate(std::numeric_limits<int64_t>::max(), 0, v);
    return make_candidate(log_entries_[v], neighbours_[v].size(), v);
  }

  void enqueue(size_t v) {
    queued_[v] = candidate(v);
    queue_.push(queued_[v]);
  }

  void connect_factors() {
    neighbours_.resize(weight_.size());
    for (const CostNetwork::Factor& factor : network_.factors()) {
      for (int a : factor.scope) {
        if (weight_[static_cast<size_t>(a)] == 0) continue;
        for (int b : factor.scope) {
          if (a != b && weight_[static_cast<size_t>(b)] > 0) neighbours_[static_cast<size_t>(a)].push_back(b);
        }
      }
    }
    for (size_t v = 0; v < neighbours_.size(); ++v) {
      std::vector<int>& list = neighbours_[v];
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
      for (int u : list) log_entries_[v] += weight_[static_cast<size_t>(u)];
    }
  }

  int64_t bucket_entries(size_t v) const {
    std::vector<int> sizes{network_.num_labels(static_cast<int>(v))};
    for (int u : neighbours_[v]) sizes.push_back(network_.num_labels(u));
    return count_entries(sizes, std::numeric_limits<int64_t>::max());
  }

  /// Insertions one by one: most neighbours know each other already, and a variable that lives through all layers has
  /// a long list of which a step changes little.
  void eliminate(size_t v) {
    eliminated_[v] = true;
    std::vector<int> clique = std::move(neighbours_[v]);
    for (int member : clique) {
      auto a = static_cast<size_t>(member);
      std::vector<int>& list = neighbours_[a];
      list.erase(std::lower_bound(list.begin(), list.end(), static_cast<int>(v)));
      log_entries_[a] -= weight_[v];
      for (int other : clique) {
        if (other == member) continue;
        auto place = std::lower_bound(list.begin(), list.end(), other);
        if (place != list.end() && *place == other) continue;
        list.insert(place, other);
        log_entries_[a] += weight_[static_cast<size_t>(other)];
      }
      // The queue holds a lower bound for every variable: one that has grown is put right when it comes up.
      if (candidate(a) < queued_[a]) enqueue(a);
    }
  }

  const CostNetwork& network_;
  int last_variable_;
  std::vector<int64_t> weight_;
  std::vector<int64_t> log_entries_;          // of a variable and its neighbours
  std::vector<std::vector<int>> neighbours_;  // increasing
  std::vector<bool> eliminated_;
  std::vector<Candidate> queued_;  // the least in the queue
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

}  // namespace

EliminationOrder elimination_order(const CostNetwork& network, int64_t max_entries, int last_variable) {
  return OrderSearch(network, last_variable).run(max_entries);
}

}  // namespace tpc

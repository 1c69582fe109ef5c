#include "passes/solver/reduction.h"

#include <deque>
#include <map>
#include <utility>

namespace tpc {
namespace {

/// The entries with these labels, in order.
std::vector<Cost> select_entries(const CostTable& table, const std::vector<const std::vector<int>*>& labels) {
  std::vector<size_t> chosen{0};
  for (size_t d = 0; d < labels.size(); ++d) {
    std::vector<size_t> finer;
    finer.reserve(chosen.size() * labels[d]->size());
    for (size_t index : chosen) {
      for (int label : *labels[d]) {
        finer.push_back(index * static_cast<size_t>(table.sizes[d]) + static_cast<size_t>(label));
      }
    }
    chosen = std::move(finer);
  }
  std::vector<Cost> entries;
  entries.reserve(chosen.size());
  for (size_t index : chosen) entries.push_back(table.entries[index]);
  return entries;
}

class SupportSearch {
 public:
  explicit SupportSearch(const CostNetwork& network) : network_(network) {
    auto count = static_cast<size_t>(network.num_variables());
    present_.resize(count);
    factors_of_.resize(count);
    for (size_t v = 0; v < count; ++v) {
      left_.push_back(network.num_labels(static_cast<int>(v)));
      present_[v].assign(static_cast<size_t>(left_[v]), 1);
    }
    for (size_t f = 0; f < network.factors().size(); ++f) {
      for (int variable : network.factors()[f].scope) factors_of_[static_cast<size_t>(variable)].push_back(f);
      waiting_.push_back(f);
    }
    is_waiting_.assign(waiting_.size(), 1);
  }

  std::vector<Certificate::Unsupported> run() {
    while (!waiting_.empty() && possible_) {
      size_t f = waiting_.front();
      waiting_.pop_front();
      is_waiting_[f] = 0;
      find_support(f);
      remove_unsupported(f);
    }
    return std::move(result_);
  }

 private:
  void find_support(size_t f) {
    const CostNetwork::Factor& factor = network_.factors()[f];
    const CostTable& table = network_.tables()[static_cast<size_t>(factor.table)];
    size_t rank = factor.scope.size();
    supported_.resize(rank);
    for (size_t d = 0; d < rank; ++d) supported_[d].assign(static_cast<size_t>(table.sizes[d]), 0);
    std::vector<size_t> labels(rank, 0);
    for (Cost entry : table.entries) {
      bool counts = entry < kInfeasible;
      for (size_t d = 0; d < rank && counts; ++d) counts = present_[index(factor.scope[d])][labels[d]] != 0;
      for (size_t d = 0; d < rank && counts; ++d) supported_[d][labels[d]] = 1;
      for (size_t d = rank; d-- > 0;) {
        if (++labels[d] < supported_[d].size()) break;
        labels[d] = 0;
      }
    }
  }

  void remove_unsupported(size_t f) {
    const std::vector<int>& scope = network_.factors()[f].scope;
    for (size_t d = 0; d < scope.size(); ++d) {
      size_t v = index(scope[d]);
      bool changed = false;
      for (size_t label = 0; label < present_[v].size(); ++label) {
        if (present_[v][label] == 0 || supported_[d][label] != 0) continue;
        present_[v][label] = 0;
        result_.push_back({{scope[d], static_cast<int>(label)}, static_cast<int>(f)});
        changed = true;
        possible_ = --left_[v] > 0 && possible_;
      }
      if (!changed) continue;
      for (size_t other : factors_of_[v]) {
        if (other != f && std::exchange(is_waiting_[other], 1) == 0) waiting_.push_back(other);
      }
    }
  }

  static size_t index(int i) { return static_cast<size_t>(i); }

  const CostNetwork& network_;
  std::vector<std::vector<char>> present_;
  std::vector<int> left_;  // labels present, per variable
  std::vector<std::vector<size_t>> factors_of_;
  std::deque<size_t> waiting_;
  std::vector<char> is_waiting_;
  std::vector<std::vector<char>> supported_;  // by the factor at hand
  bool possible_ = true;
  std::vector<Certificate::Unsupported> result_;
};

}  // namespace

CostNetwork reduce_network(const CostNetwork& network, const KeptLabels& kept) {
  CostNetwork result;
  // Variables that keep the same labels share a number: layers that repeat are reduced once.
  std::map<std::vector<int>, int> kinds;
  std::vector<int> kind_of;
  for (const std::vector<int>& labels : kept) {
    result.add_variable(static_cast<int>(labels.size()));
    kind_of.push_back(kinds.try_emplace(labels, static_cast<int>(kinds.size())).first->second);
  }
  std::map<std::vector<int>, int> built;
  for (const CostNetwork::Factor& factor : network.factors()) {
    std::vector<int> key{factor.table};
    std::vector<const std::vector<int>*> labels;
    for (int variable : factor.scope) {
      key.push_back(kind_of[static_cast<size_t>(variable)]);
      labels.push_back(&kept[static_cast<size_t>(variable)]);
    }
    auto [entry, added] = built.try_emplace(std::move(key), 0);
    if (added) {
      std::vector<int> sizes;
      for (int variable : factor.scope) sizes.push_back(result.num_labels(variable));
      const CostTable& table = network.tables()[static_cast<size_t>(factor.table)];
      entry->second = result.add_table(std::move(sizes), select_entries(table, labels));
    }
    result.add_factor(factor.scope, entry->second);
  }
  return result;
}

std::vector<Certificate::Unsupported> unsupported_labels(const CostNetwork& network) {
  return SupportSearch(network).run();
}

}  // namespace tpc

#include "passes/solver/cost_network.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

constexpr int kMaxLabels = std::numeric_limits<uint16_t>::max();

}  // namespace

int CostNetwork::add_variable(int num_labels) {
  TPC_CHECK(num_labels >= 1 && num_labels <= kMaxLabels, "a variable with {} labels", num_labels);
  num_labels_.push_back(num_labels);
  return num_variables() - 1;
}

int CostNetwork::add_table(std::vector<int> sizes, std::vector<Cost> entries) {
  int64_t expected = count_entries(sizes, std::numeric_limits<int64_t>::max());
  TPC_CHECK(expected == static_cast<int64_t>(entries.size()), "{} entries in a table of {}", entries.size(), expected);
  for (Cost entry : entries) TPC_CHECK(entry >= 0 && entry <= kInfeasible, "entry {}", to_string(entry));
  return tables_.insert({std::move(sizes), std::move(entries)});
}

void CostNetwork::add_factor(std::vector<int> scope, int table) {
  TPC_CHECK(scope.size() <= kMaxScope, "a factor of {} variables", scope.size());
  TPC_CHECK(table >= 0 && static_cast<size_t>(table) < tables().size(), "table {} of {}", table, tables().size());
  const std::vector<int>& sizes = tables()[static_cast<size_t>(table)].sizes;
  TPC_CHECK(scope.size() == sizes.size(), "{} variables for a table of {}", scope.size(), sizes.size());
  for (size_t i = 0; i < scope.size(); ++i) {
    TPC_CHECK(scope[i] >= 0 && scope[i] < num_variables(), "variable {} of {}", scope[i], num_variables());
    TPC_CHECK(num_labels(scope[i]) == sizes[i], "variable {} has {} labels, not {}", scope[i], num_labels(scope[i]),
              sizes[i]);
    auto earlier = scope.begin() + static_cast<std::ptrdiff_t>(i);
    TPC_CHECK(std::find(scope.begin(), earlier, scope[i]) == earlier, "variable {} twice", scope[i]);
  }
  factors_.push_back({std::move(scope), table});
}

Cost CostNetwork::cost(std::span<const int> assignment) const {
  TPC_CHECK(static_cast<int>(assignment.size()) == num_variables(), "{} labels for {} variables", assignment.size(),
            num_variables());
  for (int variable = 0; variable < num_variables(); ++variable) {
    int label = assignment[static_cast<size_t>(variable)];
    TPC_CHECK(label >= 0 && label < num_labels(variable), "label {} of variable {}", label, variable);
  }
  Cost total = 0;
  for (const Factor& factor : factors_) {
    size_t index = 0;
    for (int variable : factor.scope) {
      auto v = static_cast<size_t>(variable);
      index = index * static_cast<size_t>(num_labels_[v]) + static_cast<size_t>(assignment[v]);
    }
    total = add_costs(total, tables()[static_cast<size_t>(factor.table)].entries[index]);
  }
  return total;
}

}  // namespace tpc

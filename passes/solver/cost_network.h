/// A cost network: variables with finitely many labels, and factors that charge combinations of labels.
#pragma once

#include <span>
#include <vector>

#include "passes/solver/cost_table.h"

namespace tpc {

/// The problem: labels for all variables such that the sum over the factors is least.
class CostNetwork {
 public:
  using Table = CostTable;
  static constexpr size_t kMaxScope = 18;
  struct Factor {
    std::vector<int> scope;
    int table = 0;
  };

  /// A variable with labels 0 .. num_labels - 1 (1 to 65535 of them); returns its index.
  int add_variable(int num_labels);

  /// Keeps one copy of equal tables: returns the index of the table with this content. Entries in row-major order (the
  /// last variable of a scope varies fastest), each 0 <= entry < kInfeasible, or kInfeasible.
  int add_table(std::vector<int> sizes, std::vector<Cost> entries);

  /// The table applies to these (distinct) variables, whose domain sizes must be the table's sizes. A scope may have 0
  /// to kMaxScope variables.
  void add_factor(std::vector<int> scope, int table);

  int num_variables() const { return static_cast<int>(num_labels_.size()); }
  int num_labels(int variable) const { return num_labels_[static_cast<size_t>(variable)]; }
  const std::vector<Table>& tables() const { return tables_.tables(); }
  const std::vector<Factor>& factors() const { return factors_; }

  /// Sum over all factors; kInfeasible when any is, or when the sum reaches it.
  Cost cost(std::span<const int> assignment) const;

 private:
  std::vector<int> num_labels_;
  CostTableSet tables_;
  std::vector<Factor> factors_;
};

}  // namespace tpc

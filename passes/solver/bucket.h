/// One step of an elimination: the minimum of a sum of tables over one variable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "passes/solver/cost_table.h"

namespace tpc {

/// Variables inside a bucket: 0 is the one to eliminate, 1, 2, ... the others; kSingleLabel stands for any variable of
/// one label.
inline constexpr int kSingleLabel = -1;

struct BucketTerm {
  const CostTable* table = nullptr;
  std::span<const int> variables;  ///< of the bucket, one per dimension of the table; 0 among them
};

struct BucketResult {
  std::vector<int> scope;            ///< the variables 1, 2, ... in the order of the message's dimensions
  CostTable message;                 ///< the minima less `constant`: least entry 0
  Cost constant = 0;                 ///< kInfeasible when every entry is; the message is then all kInfeasible
  std::vector<uint16_t> best_label;  ///< of variable 0, per entry of the message: the lowest that attains the minimum
};

/// sizes[i]: labels of variable i. At least one term; at most 31 variables of two or more labels. The order of the
/// scope follows from the arguments, not from the entries of the tables.
BucketResult eliminate_bucket(std::span<const int> sizes, std::span<const BucketTerm> terms);

}  // namespace tpc

/// The order in which variables are eliminated.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/solver/cost_network.h"

namespace tpc {

struct EliminationOrder {
  /// Every variable with two or more labels, unless the largest bucket passes the limit: then those up to it.
  std::vector<int> variables;
  int width = 0;               ///< most neighbours of a variable at its turn
  int64_t largest_bucket = 1;  ///< most combinations of labels of a variable and its neighbours
  int64_t total = 0;           ///< the sum of these over all variables, at most 2^62
};

/// Repeatedly the variable for which the product of its labels and its neighbours' is least; then fewest neighbours,
/// then lowest index. Its neighbours become each other's. Variables of one label take no part: they cost nothing in
/// anyone's bucket. Stops after the first bucket with more than `max_entries` combinations. `last_variable`, if not -1,
/// comes after all others.
EliminationOrder elimination_order(const CostNetwork& network, int64_t max_entries, int last_variable = -1);

}  // namespace tpc

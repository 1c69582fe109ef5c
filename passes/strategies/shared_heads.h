/// Keys and values of grouped attention where there are fewer kv heads than ranks: what may be repeated by the ranks
/// that share a kv head.
#pragma once

#include <vector>

#include "passes/strategies/dim_classes.h"
#include "passes/strategies/node_rules.h"

namespace tpc {

/// Found by rules alone: an op with a factor inside another one (query heads inside their kv group) has operands and
/// results that carry the outer factor only. Nodes between such an operand and the contraction that makes it, and
/// between such a result and what contracts it, work on tensors that are too few to be split over all ranks.
class SharedHeads {
 public:
  /// `ranks`: of the tensor-parallel axis. Nothing is shared where every kv head count is a multiple of it.
  SharedHeads(const Graph& graph, const NodeRules& rules, const DimClasses& classes, int64_t ranks);

  /// The node may do on an inner sub-axis as every rank of it does, while an outer one splits it.
  bool may_share(size_t node) const { return shares_[node]; }
  /// A contraction that makes keys or values only (or its gradient): ranks may repeat it.
  bool may_repeat(size_t node) const { return repeats_[node]; }
  /// A parameter of such a contraction.
  bool is_shared(ValueId leaf) const { return shared_leaf_[leaf.position()]; }

 private:
  struct Walk;

  std::vector<bool> shares_;
  std::vector<bool> repeats_;
  std::vector<bool> shared_leaf_;
};

}  // namespace tpc

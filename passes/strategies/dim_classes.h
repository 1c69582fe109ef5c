/// Which dimensions of a step's tensors are the same one: the sequence of the tokens is that of every activation, of
/// its gradient and of the logits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/strategies/node_rules.h"

namespace tpc {

/// Dimensions that a factor of any node ties together form a class.
class DimClasses {
 public:
  DimClasses(const Graph& graph, const NodeRules& rules);

  /// A class of the batch: dimension 0 of the inputs.
  bool is_batch(ValueId value, size_t dim) const { return is_batch_[root(value, dim)]; }
  /// True for a value of which some dimension is the batch.
  bool has_batch(ValueId value) const;
  /// Marks the classes in which any tensor has a dimension of that name; false when there is none.
  bool forbid(const std::string& name);
  bool is_forbidden(ValueId value, size_t dim) const { return is_forbidden_[root(value, dim)]; }
  /// The names that forbid() knows, sorted.
  std::vector<std::string> names() const;

 private:
  size_t root(ValueId value, size_t dim) const { return parent_[first_[value.position()] + dim]; }

  const Graph& graph_;
  std::vector<size_t> first_;   ///< per value: its dimension 0 in parent_
  std::vector<size_t> parent_;  ///< after construction: the class itself
  std::vector<bool> is_batch_;
  std::vector<bool> is_forbidden_;
};

}  // namespace tpc

/// The user's names of dimensions, of values that passes made too.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace tpc {

/// A value without names takes those of what it is the gradient of, else of the first operand of its shape that its
/// node reads. Speaks of the values that the graph has when this is made.
class DimensionNames {
 public:
  explicit DimensionNames(const Graph& graph);

  /// "seq", else "dimension 1".
  std::string name(const Graph& graph, ValueId value, int64_t dim) const;

 private:
  std::vector<ValueId> named_like_;  ///< per value the one whose names it takes
};

/// The value whose gradient this is ("block0.fc1.weight" of "grad.block0.fc1.weight"); "" when it is none.
std::string_view differentiated_name(std::string_view value);

}  // namespace tpc

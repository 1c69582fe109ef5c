/// Leaves behind casts.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace tpc {

/// The leaf that `value` is a cast of, else `value`: how it lies at rest is asked of that. `made_by` is
/// producers(graph).
inline ValueId behind_cast(const Graph& graph, const std::vector<int>& made_by, ValueId value) {
  const Node& cast = graph.nodes[static_cast<size_t>(made_by[value.position()])];
  if (cast.op != OpKind::kCast) return value;
  const Node& maker = graph.nodes[static_cast<size_t>(made_by[cast.operands[0].position()])];
  return is_leaf(maker.op) ? cast.operands[0] : value;
}

}  // namespace tpc

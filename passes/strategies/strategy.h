/// A strategy chooses, for every node and mesh axis, among the strategies that the op's rule allows. Everything after
/// that choice (placements of leaves, redistributes, collectives) is the same code for all strategies.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/pass.h"

namespace tpc {

/// chosen[node][axis]; empty for leaves, sinks and nodes without a rule.
using NodeStrategies = std::vector<std::vector<Strategy>>;

struct StrategyInfo {
  std::string_view name;     ///< as on the command line
  std::string_view summary;  ///< one line
  /// The mesh that it works on: axes of size 1 are gone already; it may split axes into sub-axes.
  DeviceMesh (*refine_mesh)(const Graph&, const DeviceMesh&);
  /// Throws UserError when the model cannot be split as asked. `graph.mesh` is the refined mesh.
  NodeStrategies (*choose)(const Graph&, const PassContext&);
};

/// nullptr when no strategy has that name.
const StrategyInfo* find_strategy(std::string_view name);

}  // namespace tpc

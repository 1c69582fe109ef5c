/// A strategy chooses, for every node and mesh axis, among the strategies that the op's rule allows, and how leaves lie
/// at rest. Everything after that choice (redistributes, collectives) is the same code for all strategies.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/pass.h"

namespace tpc {

/// chosen[node][axis]; empty for leaves, sinks and nodes without a rule.
using NodeStrategies = std::vector<std::vector<Strategy>>;

/// What a strategy decides. `leaves` and `kept` have one entry a value.
struct ChosenShardings {
  NodeStrategies nodes;
  /// How an input, parameter or state lies at rest; absent: as its first use wants it.
  std::vector<std::optional<TensorSharding>> leaves;
  /// See Value::kept and Value::via.
  std::vector<std::vector<TensorSharding>> kept;
  std::vector<std::array<std::vector<TensorSharding>, 3>> via;
  std::optional<SearchProof> proof;
};

struct StrategyInfo {
  std::string_view name;     ///< as on the command line
  std::string_view summary;  ///< one line
  /// The mesh that it works on: axes of size 1 are gone already; it may split axes into sub-axes. Throws UserError when
  /// the sub-axes asked for do not fit.
  DeviceMesh (*refine_mesh)(const Graph&, const DeviceMesh&, const CompileOptions&);
  /// Throws UserError when the model cannot be split as asked. `graph.mesh` is the refined mesh.
  ChosenShardings (*choose)(const Graph&, const PassContext&);
};

/// nullptr when no strategy has that name.
const StrategyInfo* find_strategy(std::string_view name);

}  // namespace tpc

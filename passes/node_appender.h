/// Appends typed nodes with unique value names: what build-backward writes gradients and updates with.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace tpc {

class NodeAppender {
 public:
  explicit NodeAppender(Graph& graph);

  /// Appends `node` (op, operands, attributes, layer, origin, phase set; results not yet): types are inferred, and
  /// result i is called names[i] or, where the model has that name already, the same with "~" (no user's name contains
  /// it).
  std::vector<ValueId> append(Node node, const std::vector<std::string>& names);

  /// Gives `value` the name `wanted`, made unique as above.
  void rename(ValueId value, const std::string& wanted);

 private:
  std::string unique(std::string name);

  Graph& graph_;
  std::set<std::string> names_;
};

}  // namespace tpc

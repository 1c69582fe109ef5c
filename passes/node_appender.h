/// Appends typed nodes with unique value names: what build-backward writes gradients and updates with.
#pragma once

#include <functional>
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
  /// The same for a node whose number of results only its op knows: name_of(i) is asked for each.
  std::vector<ValueId> append(Node node, const std::function<std::string(size_t)>& name_of);

  /// Gives `value` the name `wanted`, made unique as above.
  void rename(ValueId value, const std::string& wanted);

 private:
  std::string unique(std::string name);

  Graph& graph_;
  std::set<std::string> names_;
};

}  // namespace tpc

/// The rules and shapes of all nodes, worked out once for nodes that are alike.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/sharding/sharding_rule.h"

namespace tpc {

struct RuledNode {
  bool has_rule = false;
  ShardingRule rule;
  std::vector<Shape> operand_shapes;
  std::vector<Shape> result_shapes;
};

/// Nodes of the same op, attributes and types are one kind.
class NodeRules {
 public:
  explicit NodeRules(const Graph& graph);

  const RuledNode& operator[](size_t node) const { return kinds_[static_cast<size_t>(kind_of_[node])]; }
  int kind(size_t node) const { return kind_of_[node]; }
  size_t num_kinds() const { return kinds_.size(); }

 private:
  std::vector<RuledNode> kinds_;
  std::vector<int> kind_of_;
};

}  // namespace tpc

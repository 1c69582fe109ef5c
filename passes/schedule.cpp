#include "passes/schedule.h"

#include "passes/dead_nodes.h"

namespace tpc {

Graph schedule(Graph graph, const PassContext& /*context*/) {
  graph = remove_dead_nodes(std::move(graph));
  // Leaves, then phases. Passes give a node a phase no earlier than its operands', so this stays topological.
  auto rank_of = [](const Node& node) { return is_leaf(node.op) ? 0 : 1 + static_cast<int>(node.phase); };
  std::vector<Node> order;
  order.reserve(graph.nodes.size());
  for (int rank = 0; rank <= 1 + static_cast<int>(Phase::kOptimizer); ++rank) {
    for (Node& node : graph.nodes) {
      if (rank_of(node) == rank) order.push_back(std::move(node));
    }
  }
  graph.nodes = std::move(order);
  return graph;
}

}  // namespace tpc

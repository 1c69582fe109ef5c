#include "passes/dead_nodes.h"

namespace tpc {
namespace {

bool is_sink(const Node& node) { return node.op == OpKind::kOutput || node.op == OpKind::kUpdate; }

/// Leaves stay: an input or a frozen parameter that nobody reads is still part of the model.
std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> read(graph.values.size(), false);
  std::vector<bool> live(graph.nodes.size(), false);
  for (size_t i = graph.nodes.size(); i > 0; --i) {
    const Node& node = graph.nodes[i - 1];
    bool keep = is_leaf(node.op) || is_sink(node);
    for (ValueId result : node.results) keep = keep || read[result.position()];
    live[i - 1] = keep;
    if (!keep) continue;
    for (ValueId operand : node.operands) read[operand.position()] = true;
  }
  return live;
}

}  // namespace

Graph remove_dead_nodes(Graph graph) {
  std::vector<bool> live = live_nodes(graph);
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (live[i]) nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);

  std::vector<int> producer = producers(graph);
  std::vector<ValueId> renumbered(graph.values.size());
  std::vector<Value> values;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (producer[v] < 0) continue;
    renumbered[v] = ValueId{static_cast<int32_t>(values.size())};
    values.push_back(std::move(graph.values[v]));
  }
  graph.values = std::move(values);
  for (Node& node : graph.nodes) {
    for (ValueId& operand : node.operands) operand = renumbered[operand.position()];
    for (ValueId& result : node.results) result = renumbered[result.position()];
    if (node.differentiates.is_valid()) node.differentiates = renumbered[node.differentiates.position()];
  }
  graph.loss = renumbered[graph.loss.position()];
  return graph;
}

}  // namespace tpc

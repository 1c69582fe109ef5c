#include "compiler/frontend/live_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tpc {
namespace {

// For every node, whether a sink needs it. Nodes are in topological order, so one backward sweep is enough.
std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live_values(graph.values.size());
  std::vector<bool> live(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    live[i] = node.results.empty() || std::any_of(node.results.begin(), node.results.end(),
                                                  [&](ValueId result) { return live_values[result.position()]; });
    if (!live[i]) continue;
    for (ValueId operand : node.operands) live_values[operand.position()] = true;
  }
  return live;
}

void warn_unused(const Graph& graph, const std::vector<bool>& live, DiagnosticSink& sink) {
  std::set<std::string> used_layers;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i]) used_layers.insert(graph.nodes[i].layer);
  }
  std::set<std::string> reported;
  for (const Node& node : graph.nodes) {
    if (used_layers.contains(node.layer) || !reported.insert(node.origin).second) continue;
    sink.warning(graph.loc(node), fmt::format("{} \"{}\" is not used by the loss; it is left out",
                                              node.op == OpKind::kInput ? "input" : "layer", node.layer));
  }
}

}  // namespace

Graph drop_unused(Graph graph, DiagnosticSink& sink) {
  std::vector<bool> live = live_nodes(graph);
  warn_unused(graph, live, sink);

  Graph kept;
  kept.name = graph.name;
  kept.source_file = graph.source_file;
  kept.precision = graph.precision;
  kept.mesh = graph.mesh;
  std::vector<ValueId> renumbered(graph.values.size());
  bool has_trainable = false;
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    Node node = std::move(graph.nodes[i]);
    for (ValueId& operand : node.operands) operand = renumbered[operand.position()];
    for (ValueId& result : node.results) {
      ValueId old = result;
      Value value = std::move(graph.value(old));
      result = add_value(kept, std::move(value.name), std::move(value.type));
      kept.value(result).dim_names = std::move(value.dim_names);
      renumbered[old.position()] = result;
    }
    has_trainable = has_trainable || (node.op == OpKind::kParameter && node.attributes.get_bool("trainable"));
    kept.nodes.push_back(std::move(node));
  }
  kept.loss = renumbered[graph.loss.position()];
  if (!has_trainable) {
    throw UserError(SourceLoc{graph.source_file, "/loss"},
                    "nothing to train: no trainable weight stands behind the loss");
  }
  return kept;
}

}  // namespace tpc

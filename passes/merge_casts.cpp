#include "passes/merge_casts.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "passes/dead_nodes.h"

namespace tpc {
namespace {

class CastMerger {
 public:
  explicit CastMerger(Graph& graph)
      : graph_(graph), uses_(uses(graph)), is_merged_(graph.nodes.size(), false), now_(graph.values.size()) {}

  void run() {
    for (Node& node : graph_.nodes) merge(node);
    std::vector<Node> kept;
    kept.reserve(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_merged_[i]) kept.push_back(std::move(graph_.nodes[i]));
    }
    graph_.nodes = std::move(kept);
    for (Node& node : graph_.nodes) {
      if (node.differentiates.is_valid() && now_[node.differentiates.position()].is_valid())
        node.differentiates = now_[node.differentiates.position()];
    }
    // The f32 forms have no maker any more.
    graph_ = remove_dead_nodes(std::move(graph_));
  }

 private:
  /// The cast that is the value's one use, of the value as it is made; -1 when there is none.
  int only_cast(ValueId value) const {
    const std::vector<Use>& of_value = uses_[value.position()];
    if (of_value.size() != 1) return -1;
    const Node& user = graph_.nodes[static_cast<size_t>(of_value[0].node)];
    bool is_whole = !graph_.value(value).sharding.has_partial();
    return user.op == OpKind::kCast && is_whole ? of_value[0].node : -1;
  }

  void merge(Node& node) {
    if (!node.attributes.has("sums")) return;
    std::vector<std::pair<size_t, int>> casts;  // result and its cast
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (op_def(node.op).floats.of_result(r) != FloatRole::kSum) continue;
      // A gradient that nobody reads has no cast.
      if (uses_[node.results[r].position()].empty()) continue;
      int cast = only_cast(node.results[r]);
      if (cast < 0) return;
      casts.emplace_back(r, cast);
    }
    node.attributes.erase("sums");
    for (auto [result, cast] : casts) {
      ValueId made = graph_.nodes[static_cast<size_t>(cast)].results[0];
      now_[node.results[result].position()] = made;
      node.results[result] = made;
      is_merged_[static_cast<size_t>(cast)] = true;
    }
    std::vector<TensorType> types = op_def(node.op).infer_types({node.attributes, operand_types(graph_, node), {}});
    for (size_t r = 0; r < types.size(); ++r) graph_.value(node.results[r]).type = types[r];
  }

  Graph& graph_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> is_merged_;  ///< per node
  std::vector<ValueId> now_;     ///< per value that is gone, what is made in its place
};

}  // namespace

Graph merge_casts(Graph graph, const PassContext& /*context*/) {
  if (graph.precision.is_mixed()) CastMerger(graph).run();
  return graph;
}

}  // namespace tpc

#include "passes/lower_redistributes.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "compiler/core/check.h"
#include "compiler/ir/move_ops.h"

namespace tpc {
namespace {

Node lowered(const Node& redistribute, const Move& move, ValueId from, ValueId to) {
  Node node = redistribute;
  node.op = op_of(move.kind);
  node.operands = {from};
  node.results = {to};
  node.operand_shardings = {move.from};
  node.attributes.set("axes", move.axes);
  if (move.kind == MoveKind::kAllReduce || move.kind == MoveKind::kReduceScatter) {
    ReduceOp op = move.from.placements[static_cast<size_t>(move.axes[0])].reduce;
    node.attributes.set("op", std::string(to_string(op)));
  }
  return node;
}

}  // namespace

Graph lower_redistributes(Graph graph, const PassContext& /*context*/) {
  using Key = std::tuple<Shape, TensorSharding, TensorSharding>;
  std::map<Key, std::vector<Move>> paths;
  std::vector<Node> source = std::move(graph.nodes);
  graph.nodes.clear();
  graph.nodes.reserve(source.size() + source.size() / 8);
  for (Node& node : source) {
    if (node.op != OpKind::kRedistribute) {
      graph.nodes.push_back(std::move(node));
      continue;
    }
    ValueId result = node.results[0];
    // Values are added below, which may move the vector: copy what is needed.
    const Shape shape = graph.value(result).type.shape;
    const TensorSharding to = graph.value(result).sharding;
    const TensorSharding& from = node.operand_shardings[0];
    auto [entry, is_new] = paths.try_emplace({shape, from, to});
    if (is_new) entry->second = redistribute(shape, from, to, graph.mesh);
    const std::vector<Move>& path = entry->second;
    ValueId current = node.operands[0];
    for (size_t i = 0; i < path.size(); ++i) {
      ValueId next = result;
      if (i + 1 < path.size()) {
        next = add_value(graph, fmt::format("{}~{}", graph.value(result).name, i), graph.value(result).type);
        graph.value(next).sharding = path[i].to;
      }
      graph.nodes.push_back(lowered(node, path[i], current, next));
      current = next;
    }
    TPC_CHECK(current == result, "conversion of \"{}\" is empty", graph.value(result).name);
  }
  return graph;
}

}  // namespace tpc

#include "passes/lower_redistributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/core/check.h"
#include "compiler/ir/move_ops.h"
#include "compiler/sharding/conversion_graph.h"
#include "passes/collective_price.h"
#include "passes/move_reasons.h"

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

/// What the search promised must be what its plan costs, or more: a form that no use turns out to need is not made.
void settle_proof(Graph& graph, const MovePrice& price) {
  int64_t total = collective_price(graph, price);
  TPC_CHECK(total <= graph.proof->price, "the plan costs {}, the search promised {}", total, graph.proof->price);
  graph.proof->price = total;
  graph.proof->bound = std::min(graph.proof->bound, total);
}

}  // namespace

Graph lower_redistributes(Graph graph, const PassContext& context) {
  using Key = std::tuple<Shape, DType, TensorSharding, TensorSharding>;
  std::map<Key, std::vector<Move>> paths;
  ConversionGraphs graphs(graph.mesh, context.options.price, context.options.detours());
  DimensionNames names(graph);
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
    const TensorSharding to = graph.value(result).sharding;
    const TensorSharding& from = node.operand_shardings[0];
    const TensorType type = graph.value(result).type;
    auto [entry, is_new] = paths.try_emplace({type.shape, type.dtype, from, to});
    if (is_new) {
      ConversionGraph& conversions = graphs.of(type);
      ConversionGraph::State start = conversions.add(from);
      entry->second = conversions.path(start, conversions.add(to));
    }
    const std::vector<Move>& path = entry->second;
    ValueId current = node.operands[0];
    for (size_t i = 0; i < path.size(); ++i) {
      ValueId next = result;
      if (i + 1 < path.size()) {
        next = add_value(graph, fmt::format("{}~{}", graph.value(result).name, i), graph.value(result).type);
        graph.value(next).sharding = path[i].to;
      }
      graph.nodes.push_back(lowered(node, path[i], current, next));
      graph.nodes.back().why = part_reason(graph, names, node.operands[0], path, i, node.why);
      current = next;
    }
    TPC_CHECK(current == result, "conversion of \"{}\" is empty", graph.value(result).name);
  }
  if (graph.proof) settle_proof(graph, context.options.price);
  return graph;
}

}  // namespace tpc

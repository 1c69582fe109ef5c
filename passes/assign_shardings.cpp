#include "passes/assign_shardings.h"

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"
#include "passes/memory_account.h"
#include "passes/strategies/strategy.h"

namespace tpc {
namespace {

void place_by_rule(Graph& graph, Node& node, const std::vector<Strategy>& strategies) {
  std::vector<TensorType> operand_list = operand_types(graph, node);
  std::vector<TensorType> result_list = result_types(graph, node);
  ShardingRule rule = op_def(node.op).sharding_rule({node.attributes, operand_list, result_list});
  NodeSharding sharding =
      node_sharding(rule, strategies, operand_shapes(graph, node), result_shapes(graph, node), graph.mesh);
  node.operand_shardings = std::move(sharding.operands);
  for (size_t i = 0; i < node.results.size(); ++i) graph.value(node.results[i]).sharding = sharding.results[i];
}

}  // namespace

Graph assign_shardings(Graph graph, const PassContext& context) {
  const StrategyInfo* strategy = find_strategy(context.options.strategy);
  TPC_CHECK(strategy != nullptr, "unknown strategy \"{}\"", context.options.strategy);
  graph.mesh = strategy->refine_mesh(graph, without_trivial_axes(context.options.mesh), context.options);
  ChosenShardings chosen = strategy->choose(graph, context);
  graph.proof = std::move(chosen.proof);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    graph.values[v].kept = std::move(chosen.kept[v]);
    graph.values[v].via = std::move(chosen.via[v]);
  }

  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (op_def(node.op).sharding_rule == nullptr || node.results.empty()) continue;
    place_by_rule(graph, node, chosen.nodes[i]);
  }
  // Leaves: as chosen, else as their first use wants them, else whole.
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (chosen.leaves[v]) graph.values[v].sharding = std::move(*chosen.leaves[v]);
  }
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.operand_shardings.size(); ++i) {
      TensorSharding& sharding = graph.value(node.operands[i]).sharding;
      if (sharding.placements.empty()) sharding = node.operand_shardings[i];
    }
  }
  for (const Node& node : graph.nodes) {
    for (ValueId result : node.results) {
      TensorSharding& sharding = graph.value(result).sharding;
      if (sharding.placements.empty()) sharding = TensorSharding::replicated(graph.mesh);
    }
  }
  // Sinks: an update is written where its target lies, an output is whole.
  for (Node& node : graph.nodes) {
    if (node.op == OpKind::kUpdate) {
      node.operand_shardings.assign(2, graph.value(node.operands[0]).sharding);
    } else if (node.op == OpKind::kOutput) {
      node.operand_shardings.assign(1, TensorSharding::replicated(graph.mesh));
    }
  }
  if (graph.proof) {
    int64_t account = memory_account(graph);
    TPC_CHECK(account == graph.proof->memory, "the plan holds {} bytes by account, the search promised {}", account,
              graph.proof->memory);
  }
  return graph;
}

}  // namespace tpc

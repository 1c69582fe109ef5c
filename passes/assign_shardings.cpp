#include "passes/assign_shardings.h"

#include <map>

#include "compiler/core/check.h"
#include "passes/memory_account.h"
#include "passes/strategies/node_rules.h"
#include "passes/strategies/strategy.h"

namespace tpc {
namespace {

/// Placements follow from the rule; nodes that are alike and split alike have the same.
class RulePlacer {
 public:
  explicit RulePlacer(const Graph& graph) : rules_(graph), known_(rules_.num_kinds()) {}

  bool has_rule(size_t node) const { return rules_[node].has_rule; }

  const NodeSharding& sharding(size_t node, const std::vector<Strategy>& strategies, const DeviceMesh& mesh) {
    auto [entry, is_new] = known_[static_cast<size_t>(rules_.kind(node))].try_emplace(strategies);
    if (is_new) {
      const RuledNode& ruled = rules_[node];
      entry->second = node_sharding(ruled.rule, strategies, ruled.operand_shapes, ruled.result_shapes, mesh);
    }
    return entry->second;
  }

 private:
  NodeRules rules_;
  std::vector<std::map<std::vector<Strategy>, NodeSharding>> known_;
};

}  // namespace

Graph assign_shardings(Graph graph, const PassContext& context) {
  const StrategyInfo* strategy = find_strategy(context.options.strategy);
  TPC_CHECK(strategy != nullptr, "unknown strategy \"{}\"", context.options.strategy);
  graph.mesh = strategy->refine_mesh(graph, without_trivial_axes(context.options.mesh), context.options);
  ChosenShardings chosen = context.options.chosen ? *context.options.chosen : strategy->choose(graph, context);
  graph.proof = std::move(chosen.proof);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    graph.values[v].kept = std::move(chosen.kept[v]);
    graph.values[v].via = std::move(chosen.via[v]);
  }

  RulePlacer placer(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!placer.has_rule(i)) continue;
    Node& node = graph.nodes[i];
    const NodeSharding& sharding = placer.sharding(i, chosen.nodes[i], graph.mesh);
    node.operand_shardings = sharding.operands;
    for (size_t r = 0; r < node.results.size(); ++r) graph.value(node.results[r]).sharding = sharding.results[r];
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

#include "passes/assign_shardings.h"

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"
#include "passes/strategies/strategy.h"

namespace tpc {
namespace {

/// An axis of one rank says nothing; dropping it here keeps it out of every later pass.
DeviceMesh without_trivial_axes(const DeviceMesh& mesh) {
  std::vector<MeshAxis> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1) axes.push_back(axis);
  }
  return DeviceMesh(std::move(axes));
}

/// Inputs lie split by batch over the data axes.
TensorSharding input_sharding(const Graph& graph, const Shape& shape) {
  TensorSharding sharding = TensorSharding::replicated(graph.mesh);
  for (size_t axis = 0; axis < graph.mesh.num_axes(); ++axis) {
    if (user_axis(graph.mesh.axes()[axis].name) == "dp" && !shape.empty())
      sharding.placements[axis] = Placement::shard(0);
  }
  return sharding;
}

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
  graph.mesh = strategy->refine_mesh(graph, without_trivial_axes(context.options.mesh));
  NodeStrategies chosen = strategy->choose(graph, context);

  std::vector<bool> placed(graph.values.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (op_def(node.op).sharding_rule == nullptr || node.results.empty()) continue;
    place_by_rule(graph, node, chosen[i]);
  }
  // Leaves: inputs by role, parameters and states as their first use wants them.
  for (Node& node : graph.nodes) {
    if (node.op == OpKind::kInput) {
      Value& value = graph.value(node.results[0]);
      value.sharding = input_sharding(graph, value.type.shape);
      placed[node.results[0].position()] = true;
    }
    for (size_t i = 0; i < node.operand_shardings.size(); ++i) {
      ValueId operand = node.operands[i];
      if (placed[operand.position()] || !graph.value(operand).sharding.placements.empty()) continue;
      graph.value(operand).sharding = node.operand_shardings[i];
      placed[operand.position()] = true;
    }
  }
  for (Node& node : graph.nodes) {
    for (ValueId result : node.results) {
      Value& value = graph.value(result);
      if (value.sharding.placements.empty()) value.sharding = TensorSharding::replicated(graph.mesh);
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
  return graph;
}

}  // namespace tpc

#include "passes/insert_redistributes.h"

#include <fmt/format.h>

#include <map>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

std::string wanted_by(const Node& user) {
  if (user.op == OpKind::kUpdate) return "the parameter at rest";
  if (user.op == OpKind::kOutput) return fmt::format("output \"{}\"", user.attributes.get_string("name"));
  return fmt::format("\"{}\" ({})", user.layer, op_def(user.op).name);
}

/// Who made the placement and who wants the other, in words; only axes that change count.
std::string reason(const Value& value, const Node& producer, const Node& user, const TensorSharding& to) {
  bool sums = false;
  bool maximum = false;
  bool splits = false;
  bool gathers = false;
  std::string split_by;
  for (size_t axis = 0; axis < to.placements.size(); ++axis) {
    const Placement& before = value.sharding.placements[axis];
    const Placement& after = to.placements[axis];
    if (before == after) continue;
    sums = sums || (before.is_partial() && !after.is_partial());
    maximum = maximum || (before.is_partial() && before.reduce == ReduceOp::kMax);
    splits = splits || after.is_shard();
    gathers = gathers || (before.is_shard() && after.is_replicate());
    if (before.is_shard()) split_by = dim_name(value, before.dim);
  }
  if (maximum) {
    return fmt::format("each rank has the maximum of its block only; {} needs the largest of all", wanted_by(user));
  }
  bool norm = producer.op == OpKind::kSumSquares || producer.op == OpKind::kAdd;
  if (sums && norm && producer.phase == Phase::kOptimizer)
    return "each rank has the squares of its own gradients; the norm needs all";
  if (sums) {
    bool gradient = user.phase == Phase::kOptimizer && user.op != OpKind::kOutput;
    return fmt::format("each rank holds a part of the sum that is {}\"{}\"; {} needs {}",
                       gradient ? "the gradient of " : "", producer.layer, wanted_by(user),
                       splits ? "its block of the whole" : "the whole");
  }
  if (gathers && !splits) {
    return fmt::format("\"{}\" leaves it split by {}; {} needs it whole", producer.layer, split_by, wanted_by(user));
  }
  return fmt::format("\"{}\" leaves it as {}; {} needs {}", producer.layer, to_string(value.sharding), wanted_by(user),
                     to_string(to));
}

}  // namespace

Graph insert_redistributes(Graph graph, const PassContext& /*context*/) {
  std::vector<int> producer = producers(graph);
  std::vector<Node> source = std::move(graph.nodes);
  graph.nodes.clear();
  graph.nodes.reserve(source.size() + source.size() / 4);
  std::map<std::pair<ValueId, TensorSharding>, ValueId> converted;
  for (Node& node : source) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      ValueId operand = node.operands[i];
      const TensorSharding& wanted = node.operand_shardings[i];
      if (graph.value(operand).sharding == wanted) continue;
      TPC_CHECK(node.op != OpKind::kUpdate || i == 1, "the target of an update is converted");
      auto [entry, is_new] = converted.try_emplace({operand, wanted});
      if (is_new) {
        const TensorSharding from = graph.value(operand).sharding;
        const Node& made_by = source[static_cast<size_t>(producer[operand.position()])];
        Node move;
        move.op = OpKind::kRedistribute;
        move.layer = node.layer;
        move.origin = node.origin;
        move.phase = node.phase;
        move.operands = {operand};
        move.operand_shardings = {from};
        move.why = reason(graph.value(operand), made_by, node, wanted);
        ValueId result = add_value(graph, fmt::format("{}@{}", graph.value(operand).name, to_string(wanted)),
                                   graph.value(operand).type);
        graph.value(result).sharding = wanted;
        graph.value(result).dim_names = graph.value(operand).dim_names;
        move.results = {result};
        graph.nodes.push_back(std::move(move));
        entry->second = result;
      }
      node.operands[i] = entry->second;
    }
    // `source` keeps layer and origin of moved nodes for the reasons above.
    graph.nodes.push_back(node);
  }
  return graph;
}

}  // namespace tpc

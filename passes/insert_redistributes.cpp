#include "passes/insert_redistributes.h"

#include <fmt/format.h>

#include <map>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

bool any_axis(const TensorSharding& sharding, bool (Placement::*predicate)() const) {
  for (const Placement& placement : sharding.placements) {
    if ((placement.*predicate)()) return true;
  }
  return false;
}

/// Who made the placement and who wants the other, in words.
std::string reason(const Graph& graph, const Node* producer, const Node& user, const TensorSharding& from,
                   const TensorSharding& to) {
  std::string made_by = producer == nullptr ? std::string("the input") : fmt::format("\"{}\"", producer->layer);
  std::string action(op_def(user.op).name);
  std::string wanted_by = user.layer == "optimizer" ? "the gradient norm" : fmt::format("\"{}\" ({})", user.layer, action);
  if (user.op == OpKind::kUpdate) wanted_by = "the parameter at rest";
  if (user.op == OpKind::kOutput) wanted_by = fmt::format("output \"{}\"", user.attributes.get_string("name"));
  bool was_partial = any_axis(from, &Placement::is_partial);
  bool stays_partial = any_axis(to, &Placement::is_partial);
  if (was_partial && !stays_partial) {
    const char* what = user.phase == Phase::kOptimizer ? "the gradient" : "the result";
    if (user.op == OpKind::kOutput || user.phase != Phase::kOptimizer) what = "the result";
    const char* form = any_axis(to, &Placement::is_shard) ? "its block of the whole sum" : "the whole sum";
    return fmt::format("each rank holds a part of {} of {}; {} needs {}", what, made_by, wanted_by, form);
  }
  if (any_axis(from, &Placement::is_shard) && to.is_replicated()) {
    return fmt::format("{} leaves it split; {} needs it whole", made_by, wanted_by);
  }
  (void)graph;
  return fmt::format("{} leaves it as {}; {} needs {}", made_by, to_string(from), wanted_by, to_string(to));
}

}  // namespace

Graph insert_redistributes(Graph graph, const PassContext& context) {
  (void)context;
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
        int made_by = producer[operand.position()];
        Node move;
        move.op = OpKind::kRedistribute;
        move.layer = node.layer;
        move.origin = node.origin;
        move.phase = node.phase;
        move.operands = {operand};
        move.operand_shardings = {from};
        move.why = reason(graph, made_by < 0 ? nullptr : &source[static_cast<size_t>(made_by)], node, from, wanted);
        ValueId result = add_value(graph, fmt::format("{}@{}", graph.value(operand).name, to_string(wanted)),
                                   graph.value(operand).type);
        graph.value(result).sharding = wanted;
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

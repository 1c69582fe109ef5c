#include "passes/memory_account.h"

#include <set>
#include <vector>

#include "compiler/ir/op_kind.h"

namespace tpc {
int64_t memory_account(const Graph& graph) {
  int64_t bytes = 0;
  auto local_bytes = [&](const Value& value, const TensorSharding& sharding) {
    return fullest_bytes(value.type, sharding, graph.mesh);
  };
  std::vector<int> producer = producers(graph);
  auto made_by = [&](ValueId value) -> const Node& {
    return graph.nodes[static_cast<size_t>(producer[value.position()])];
  };
  std::vector<std::set<TensorSharding>> wanted_late(graph.values.size());
  for (const Node& node : graph.nodes) {
    // A constant is made anew where it is wanted.
    bool rests = is_leaf(node.op) && node.op != OpKind::kFill;
    for (ValueId result : node.results) {
      if (rests) bytes += local_bytes(graph.value(result), graph.value(result).sharding);
    }
    if (node.op == OpKind::kUpdate && made_by(node.operands[0]).op == OpKind::kParameter) {
      const Node& update = made_by(node.operands[1]);
      for (size_t i = 0; i < update.operands.size(); ++i) {
        if (made_by(update.operands[i]).phase != Phase::kBackward) continue;
        bytes += local_bytes(graph.value(update.operands[i]), update.operand_shardings[i]);
      }
    }
    if (node.phase != Phase::kBackward) continue;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      wanted_late[node.operands[i].position()].insert(node.operand_shardings[i]);
    }
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    const Node& maker = graph.nodes[static_cast<size_t>(producer[v])];
    if (wanted_late[v].empty() || maker.phase != Phase::kForward || maker.op == OpKind::kFill) continue;
    std::set<TensorSharding> waiting = wanted_late[v];
    if (!value.kept.empty()) waiting = {value.kept.begin(), value.kept.end()};
    // What a leaf is at rest is counted already.
    if (is_leaf(maker.op)) waiting.erase(value.sharding);
    for (const TensorSharding& form : waiting) bytes += local_bytes(value, form);
  }
  return bytes;
}

}  // namespace tpc

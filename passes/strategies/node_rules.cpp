#include "passes/strategies/node_rules.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/node_kind.h"
#include "compiler/ops/op_def.h"

namespace tpc {

NodeRules::NodeRules(const Graph& graph) {
  std::unordered_map<std::string, int> known;
  kind_of_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    auto [entry, is_new] = known.try_emplace(node_kind_key(graph, node), static_cast<int>(kinds_.size()));
    kind_of_.push_back(entry->second);
    if (!is_new) continue;
    RuledNode& kind = kinds_.emplace_back();
    kind.operand_shapes = operand_shapes(graph, node);
    kind.result_shapes = result_shapes(graph, node);
    const OpDef& def = op_def(node.op);
    if (def.sharding_rule == nullptr || node.results.empty()) continue;
    std::vector<TensorType> operands = operand_types(graph, node);
    std::vector<TensorType> results = result_types(graph, node);
    kind.rule = def.sharding_rule({node.attributes, operands, results});
    kind.has_rule = true;
    // Ops that round may not work on the parts of sums that are f32 until they are whole.
    bool rounds =
        std::any_of(results.begin(), results.end(), [](const TensorType& type) { return type.dtype != DType::kF32; });
    if (rounds && graph.precision.is_mixed() && graph.precision.reduce == DType::kF32) kind.rule.linear.clear();
  }
}

}  // namespace tpc

#include "passes/infer_types.h"

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {

Graph infer_types(Graph graph, const PassContext& context) {
  std::vector<bool> failed(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    // What hangs on a failed node would only repeat its mistake.
    bool reachable = true;
    for (ValueId operand : node.operands) reachable = reachable && !failed[operand.position()];
    std::vector<TensorType> types;
    if (reachable) {
      try {
        types = op_def(node.op).infer_types({node.attributes, operand_types(graph, node), {}});
      } catch (const OpTypeError& error) {
        context.diagnostics.error(graph.loc(node), error.what());
      }
    }
    if (types.empty()) {
      for (ValueId result : node.results) failed[result.position()] = true;
      continue;
    }
    TPC_CHECK(types.size() == node.results.size(), "{} infers {} results, the node has {}", op_def(node.op).name,
              types.size(), node.results.size());
    for (size_t i = 0; i < types.size(); ++i) graph.value(node.results[i]).type = types[i];
  }
  context.diagnostics.throw_if_errors();
  return graph;
}

}  // namespace tpc

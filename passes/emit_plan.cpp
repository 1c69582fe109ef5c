#include "passes/emit_plan.h"

namespace tpc {
namespace {

std::vector<TensorRole> roles(const Graph& graph) {
  std::vector<TensorRole> role(graph.values.size(), TensorRole::kOther);
  for (const Node& node : graph.nodes) {
    TensorRole made = node.phase == Phase::kForward ? TensorRole::kActivation : TensorRole::kOther;
    if (node.op == OpKind::kInput) made = TensorRole::kInput;
    if (node.op == OpKind::kParameter) made = TensorRole::kParameter;
    if (node.op == OpKind::kState) made = TensorRole::kState;
    bool is_weight = node.op == OpKind::kCast && role[node.operands[0].position()] == TensorRole::kParameter;
    if (is_weight) made = TensorRole::kWeight;
    // However it is moved afterwards.
    if (is_move(node.op) && role[node.operands[0].position()] == TensorRole::kWeight) made = TensorRole::kWeight;
    for (ValueId result : node.results) role[result.position()] = made;
    if (node.op == OpKind::kAdamW || node.op == OpKind::kSgd) role[node.operands[1].position()] = TensorRole::kGradient;
  }
  return role;
}

}  // namespace

Plan emit_plan(const Graph& graph, const std::map<std::string, std::string>& options) {
  Plan plan;
  plan.model_name = graph.name;
  plan.options = options;
  if (graph.precision.is_mixed()) plan.options["precision"] = to_string(graph.precision);
  plan.mesh = graph.mesh;
  plan.proof = graph.proof;
  std::vector<TensorRole> role = roles(graph);
  plan.tensors.reserve(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    PlanTensor tensor;
    tensor.name = value.name;
    tensor.type = value.type;
    tensor.sharding = value.sharding;
    tensor.role = role[v];
    tensor.bytes = num_elements(*value.local_shape) * byte_size(value.type.dtype);
    plan.tensors.push_back(std::move(tensor));
  }
  plan.steps.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    if (is_leaf(node.op)) {
      plan.tensors[node.results[0].position()].attributes = node.attributes;
      continue;
    }
    if (node.op == OpKind::kOutput) plan.outputs[node.attributes.get_string("name")] = node.operands[0].index;
    PlanStep step;
    step.op = node.op;
    for (ValueId operand : node.operands) step.operands.push_back(operand.index);
    for (ValueId result : node.results) step.results.push_back(result.index);
    step.attributes = node.attributes;
    step.phase = node.phase;
    step.layer = node.layer;
    step.origin = node.origin;
    step.why = node.why;
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

}  // namespace tpc

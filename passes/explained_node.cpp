#include "passes/explained_node.h"

#include <algorithm>
#include <set>

#include "compiler/core/text_parts.h"

namespace tpc {
namespace {

size_t position(int index) { return static_cast<size_t>(index); }

void add_layer(ExplainedNode& node, const std::string& layer) {
  if (std::find(node.layers.begin(), node.layers.end(), layer) == node.layers.end()) node.layers.push_back(layer);
}

ExplainedNode layer_node(const Plan& plan, const Report& report, const std::string& name) {
  ExplainedNode node{ExplainedNode::Kind::kLayer, name, {}, {}, -1, {}};
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.layer == name && !is_move(step.op)) node.steps.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < report.collectives.size(); ++i) {
    const CollectiveRow& row = report.collectives[i];
    if (row.layer == name || plan.steps[position(row.step)].layer == name) node.collectives.push_back(i);
  }
  add_layer(node, name);
  return node;
}

/// Steps that read a tensor, as it lies or moved; not the updates that write it.
std::vector<int> readers(const Plan& plan, int tensor) {
  std::vector<bool> carries(plan.tensors.size(), false);
  carries[position(tensor)] = true;
  std::vector<int> steps;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    bool reads = std::any_of(step.operands.begin(), step.operands.end(),
                             [&](int operand) { return carries[position(operand)]; });
    if (!reads) continue;
    if (is_move(step.op)) {
      carries[position(step.results[0])] = true;
    } else if (step.op != OpKind::kUpdate) {
      steps.push_back(static_cast<int>(i));
    }
  }
  return steps;
}

/// Walks from what moves made back to what a step made, or what persists.
ExplainedNode tensor_node(const Plan& plan, const Report& report, int tensor) {
  ExplainedNode node{ExplainedNode::Kind::kTensor, plan.tensors[position(tensor)].name, {}, {}, tensor, {}};
  const std::vector<int> made_by = producers(plan);
  std::set<int> moves;
  int source = tensor;
  while (made_by[position(source)] >= 0 && is_move(plan.steps[position(made_by[position(source)])].op)) {
    moves.insert(made_by[position(source)]);
    source = plan.steps[position(made_by[position(source)])].operands[0];
  }
  if (made_by[position(source)] >= 0) {
    node.steps.push_back(made_by[position(source)]);
  } else {
    node.steps = readers(plan, source);
  }
  for (int step : node.steps) add_layer(node, plan.steps[position(step)].layer);
  const std::string& source_name = plan.tensors[position(source)].name;
  for (size_t i = 0; i < report.collectives.size(); ++i) {
    const CollectiveRow& row = report.collectives[i];
    bool is_here = moves.empty() ? row.tensor == source_name : moves.count(row.step) != 0;
    if (!is_here) continue;
    node.collectives.push_back(i);
    add_layer(node, plan.steps[position(row.step)].layer);
  }
  return node;
}

ExplainedNode step_node(const Plan& plan, const Report& report, int index) {
  const PlanStep& step = plan.steps[position(index)];
  // A move is told by what it makes.
  if (is_move(step.op)) return tensor_node(plan, report, step.results[0]);
  ExplainedNode node{ExplainedNode::Kind::kStep, std::string(op_name(step.op)), {index}, {}, -1, {step.layer}};
  std::set<std::string> made;
  for (int result : step.results) made.insert(plan.tensors[position(result)].name);
  for (size_t i = 0; i < report.collectives.size(); ++i) {
    if (made.count(report.collectives[i].tensor) != 0) node.collectives.push_back(i);
  }
  return node;
}

}  // namespace

std::optional<ExplainedNode> find_node(const Plan& plan, const Report& report, const std::string& name) {
  bool is_layer =
      std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) { return step.layer == name; });
  if (is_layer) return layer_node(plan, report, name);
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].name == name) return tensor_node(plan, report, static_cast<int>(i));
  }
  std::optional<int> index = parse_number<int>(name);
  if (!index || *index < 0 || position(*index) >= plan.steps.size()) return std::nullopt;
  return step_node(plan, report, *index);
}

std::vector<std::string> node_names(const Plan& plan) {
  std::set<std::string> names;
  for (const PlanStep& step : plan.steps) names.insert(step.layer);
  for (const PlanTensor& tensor : plan.tensors) names.insert(tensor.name);
  return {names.begin(), names.end()};
}

}  // namespace tpc

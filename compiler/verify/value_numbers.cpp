#include "compiler/verify/value_numbers.h"

#include <algorithm>

namespace tpc::verify {
namespace {

std::string text_of(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.items()) text += name + "=" + to_string(value) + ";";
  return text;
}

}  // namespace

ValueNumbers::ValueNumbers(const Graph& model) : model_(model), numbers_(model.values.size(), kUnknown) {
  auto add = [&](ValueId value) {
    numbers_[value.position()] = static_cast<int>(names_.size());
    names_.push_back(model.value(value).name);
    types_.push_back(model.value(value).type);
  };
  by_name_.reserve(model.values.size());
  for (const Node& node : model.nodes) {
    std::vector<int> operands;
    for (ValueId operand : node.operands) operands.push_back(numbers_[operand.position()]);
    if (is_leaf(node.op)) {
      add(node.results[0]);
      leaves_[model.value(node.results[0]).name] = of(node.results[0]);
      leaf_nodes_[of(node.results[0])] = &node;
    } else if (node.op == OpKind::kUpdate) {
      updates_[operands[0]] = operands[1];
    } else if (node.op == OpKind::kOutput) {
      outputs_[node.attributes.get_string("name")] = operands[0];
    } else {
      auto texts = static_cast<int>(attribute_texts_.size());
      int attributes = attribute_texts_.try_emplace(text_of(node.attributes), texts).first->second;
      auto [entry, is_new] = results_.try_emplace(key(node.op, attributes, operands), static_cast<int>(names_.size()));
      if (is_new) {
        for (ValueId result : node.results) add(result);
      } else {
        for (size_t i = 0; i < node.results.size(); ++i)
          numbers_[node.results[i].position()] = entry->second + static_cast<int>(i);
      }
    }
    for (ValueId result : node.results) by_name_[model.value(result).name] = of(result);
  }
}

int ValueNumbers::named(const std::string& name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? kUnknown : found->second;
}

std::vector<int> ValueNumbers::key(OpKind op, int attributes, std::vector<int> operands) const {
  if (op == OpKind::kAdd || op == OpKind::kMultiply) std::sort(operands.begin(), operands.end());
  operands.push_back(attributes);
  operands.push_back(static_cast<int>(op));
  return operands;
}

int ValueNumbers::leaf(const std::string& name) const {
  auto found = leaves_.find(name);
  return found == leaves_.end() ? kUnknown : found->second;
}

int ValueNumbers::result(OpKind op, const Attributes& attributes, std::vector<int> operands) const {
  auto text = attribute_texts_.find(text_of(attributes));
  if (text == attribute_texts_.end()) return kUnknown;
  auto found = results_.find(key(op, text->second, std::move(operands)));
  return found == results_.end() ? kUnknown : found->second;
}

std::vector<const Node*> ValueNumbers::nodes_like(const std::string& layer, OpKind op) const {
  std::vector<const Node*> nodes;
  for (const Node& node : model_.nodes) {
    if (node.op == op && node.layer == layer) nodes.push_back(&node);
  }
  return nodes;
}

}  // namespace tpc::verify

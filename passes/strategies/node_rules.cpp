#include "passes/strategies/node_rules.h"

#include <unordered_map>

#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

void append_number(std::string& key, int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_type(std::string& key, const TensorType& type) {
  append_number(key, static_cast<int64_t>(type.dtype));
  append_number(key, static_cast<int64_t>(type.shape.size()));
  for (int64_t size : type.shape) append_number(key, size);
}

/// Everything that a rule may depend on.
std::string kind_key(const Graph& graph, const Node& node) {
  std::string key;
  append_number(key, static_cast<int64_t>(node.op));
  for (const auto& [name, value] : node.attributes.items()) {
    key += name + '=';
    if (const std::string* text = std::get_if<std::string>(&value)) {
      key += *text;
    } else if (const int64_t* number = std::get_if<int64_t>(&value)) {
      append_number(key, *number);
    } else {
      key += to_string(value);
    }
    key += ';';
  }
  append_number(key, static_cast<int64_t>(node.operands.size()));
  for (ValueId operand : node.operands) append_type(key, graph.value(operand).type);
  for (ValueId result : node.results) append_type(key, graph.value(result).type);
  return key;
}

}  // namespace

NodeRules::NodeRules(const Graph& graph) {
  std::unordered_map<std::string, int> known;
  kind_of_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    auto [entry, is_new] = known.try_emplace(kind_key(graph, node), static_cast<int>(kinds_.size()));
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
  }
}

}  // namespace tpc

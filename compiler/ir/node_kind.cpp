#include "compiler/ir/node_kind.h"

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

}  // namespace

std::string node_kind_key(const Graph& graph, const Node& node) {
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

void append_sharding(std::string& key, const TensorSharding& sharding) {
  append_number(key, static_cast<int64_t>(sharding.placements.size()));
  for (const Placement& placement : sharding.placements) {
    append_number(key, static_cast<int64_t>(placement.kind) * 2 + static_cast<int64_t>(placement.reduce));
    append_number(key, placement.dim);
    append_number(key, placement.unit);
  }
}

}  // namespace tpc

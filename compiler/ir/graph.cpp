#include "compiler/ir/graph.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

std::vector<TensorType> types_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<TensorType> types;
  types.reserve(ids.size());
  for (ValueId id : ids) types.push_back(graph.value(id).type);
  return types;
}

std::vector<Shape> shapes_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<Shape> shapes;
  shapes.reserve(ids.size());
  for (ValueId id : ids) shapes.push_back(graph.value(id).type.shape);
  return shapes;
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
  }
  TPC_UNREACHABLE("phase {}", static_cast<int>(phase));
}

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::kParsed:
      return "parsed";
    case Stage::kTyped:
      return "typed";
    case Stage::kDifferentiated:
      return "differentiated";
    case Stage::kPlaced:
      return "placed";
    case Stage::kReconciled:
      return "reconciled";
    case Stage::kCollective:
      return "collective";
    case Stage::kLocal:
      return "local";
    case Stage::kScheduled:
      return "scheduled";
  }
  TPC_UNREACHABLE("stage {}", static_cast<int>(stage));
}

ValueId add_value(Graph& graph, std::string name, TensorType type) {
  ValueId id{static_cast<int32_t>(graph.values.size())};
  Value value;
  value.name = std::move(name);
  value.type = std::move(type);
  graph.values.push_back(std::move(value));
  return id;
}

std::vector<int> producers(const Graph& graph) {
  std::vector<int> result(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId id : graph.nodes[i].results) result[id.position()] = static_cast<int>(i);
  }
  return result;
}

std::vector<std::vector<Use>> uses(const Graph& graph) {
  std::vector<std::vector<Use>> result(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<ValueId>& operands = graph.nodes[i].operands;
    for (size_t k = 0; k < operands.size(); ++k) {
      result[operands[k].position()].push_back({static_cast<int>(i), static_cast<int>(k)});
    }
  }
  return result;
}

std::vector<TensorType> operand_types(const Graph& graph, const Node& node) { return types_of(graph, node.operands); }
std::vector<TensorType> result_types(const Graph& graph, const Node& node) { return types_of(graph, node.results); }
std::vector<Shape> operand_shapes(const Graph& graph, const Node& node) { return shapes_of(graph, node.operands); }
std::vector<Shape> result_shapes(const Graph& graph, const Node& node) { return shapes_of(graph, node.results); }

std::string dim_name(const Value& value, int64_t dim) {
  size_t position = static_cast<size_t>(dim);
  if (position < value.dim_names.size() && !value.dim_names[position].empty()) return value.dim_names[position];
  return fmt::format("dimension {}", dim);
}

std::string placement_name(const Value& value, const Placement& placement) {
  size_t position = static_cast<size_t>(placement.dim);
  bool named = placement.is_shard() && position < value.dim_names.size() && !value.dim_names[position].empty();
  return named ? fmt::format("S({})", value.dim_names[position]) : to_string(placement);
}

}  // namespace tpc

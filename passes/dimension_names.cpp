#include "passes/dimension_names.h"

#include <unordered_map>

namespace tpc {
namespace {

constexpr std::string_view kGradientPrefix = "grad.";

}  // namespace

std::string_view differentiated_name(std::string_view value) {
  return value.starts_with(kGradientPrefix) ? value.substr(kGradientPrefix.size()) : std::string_view();
}

DimensionNames::DimensionNames(const Graph& graph) {
  std::unordered_map<std::string_view, ValueId> by_name;
  named_like_.resize(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    ValueId id{static_cast<int32_t>(v)};
    named_like_[v] = id;
    if (!graph.values[v].dim_names.empty()) by_name.emplace(graph.values[v].name, id);
  }
  for (const Node& node : graph.nodes) {
    for (ValueId result : node.results) {
      const Value& value = graph.value(result);
      if (!value.dim_names.empty()) continue;
      auto fits = [&](ValueId other) { return graph.value(other).type.shape == value.type.shape; };
      auto primal = by_name.find(differentiated_name(value.name));
      if (primal != by_name.end() && fits(primal->second)) {
        named_like_[result.position()] = primal->second;
        continue;
      }
      for (ValueId operand : node.operands) {
        ValueId like = named_like_[operand.position()];
        if (graph.value(like).dim_names.empty() || !fits(operand)) continue;
        named_like_[result.position()] = like;
        break;
      }
    }
  }
}

std::string DimensionNames::name(const Graph& graph, ValueId value, int64_t dim) const {
  return dim_name(graph.value(named_like_[value.position()]), dim);
}

}  // namespace tpc

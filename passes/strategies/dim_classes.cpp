#include "passes/strategies/dim_classes.h"

#include <algorithm>
#include <set>

namespace tpc {
namespace {

size_t find_root(std::vector<size_t>& parent, size_t item) {
  while (parent[item] != item) {
    parent[item] = parent[parent[item]];
    item = parent[item];
  }
  return item;
}

}  // namespace

DimClasses::DimClasses(const Graph& graph, const NodeRules& rules) : graph_(graph) {
  size_t count = 0;
  for (const Value& value : graph.values) {
    first_.push_back(count);
    count += value.type.shape.size();
  }
  parent_.resize(count);
  for (size_t i = 0; i < count; ++i) parent_[i] = i;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (const Factor& factor : rules[n].rule.factors) {
      size_t tied = count;
      auto tie = [&](ValueId value, const std::optional<Factor::Use>& use) {
        if (!use) return;
        size_t dim = find_root(parent_, first_[value.position()] + static_cast<size_t>(use->dim));
        if (tied == count) tied = dim;
        parent_[dim] = tied;
      };
      for (size_t i = 0; i < node.operands.size(); ++i) tie(node.operands[i], factor.operands[i]);
      for (size_t i = 0; i < node.results.size(); ++i) tie(node.results[i], factor.results[i]);
    }
    // An update writes the target's own dimensions.
    if (node.op == OpKind::kUpdate) {
      for (size_t dim = 0; dim < graph.value(node.operands[0]).type.shape.size(); ++dim) {
        size_t target = find_root(parent_, first_[node.operands[0].position()] + dim);
        parent_[find_root(parent_, first_[node.operands[1].position()] + dim)] = target;
      }
    }
  }
  for (size_t i = 0; i < count; ++i) parent_[i] = find_root(parent_, i);
  is_batch_.assign(count, false);
  is_forbidden_.assign(count, false);
  for (const Node& node : graph.nodes) {
    if (node.op != OpKind::kInput || graph.value(node.results[0]).type.shape.empty()) continue;
    is_batch_[root(node.results[0], 0)] = true;
  }
}

bool DimClasses::has_batch(ValueId value) const {
  size_t rank = graph_.value(value).type.shape.size();
  for (size_t dim = 0; dim < rank; ++dim) {
    if (is_batch(value, dim)) return true;
  }
  return false;
}

bool DimClasses::forbid(const std::string& name) {
  bool found = false;
  if (name.empty()) return false;
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const std::vector<std::string>& names = graph_.values[v].dim_names;
    for (size_t dim = 0; dim < names.size(); ++dim) {
      if (names[dim] != name) continue;
      is_forbidden_[root(ValueId{static_cast<int32_t>(v)}, dim)] = true;
      found = true;
    }
  }
  return found;
}

std::vector<std::string> DimClasses::names() const {
  std::set<std::string> names;
  for (const Value& value : graph_.values) {
    for (const std::string& name : value.dim_names) {
      if (!name.empty()) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace tpc

#include "compiler/plan/attribute_changes.h"

#include <fmt/format.h>

#include <set>
#include <unordered_map>

namespace tpc {
namespace {

/// What has attributes, and the tensor by whose name it is found.
struct Item {
  const PlanTensor* tensor = nullptr;
  const Attributes* attributes = nullptr;
  OpKind op = OpKind::kAdd;
  std::string layer;
};

/// Leaves, then steps in their order.
std::vector<Item> items_of(const Plan& plan) {
  std::vector<Item> items;
  for (const PlanTensor& tensor : plan.tensors) {
    if (!tensor.attributes.items().empty()) items.push_back({&tensor, &tensor.attributes, OpKind::kAdd, tensor.name});
  }
  for (const PlanStep& step : plan.steps) {
    if (is_move(step.op) || step.results.empty()) continue;
    items.push_back({&plan.tensors[static_cast<size_t>(step.results[0])], &step.attributes, step.op, step.layer});
  }
  return items;
}

std::string text_of(const Attributes& attributes, const std::string& name) {
  auto found = attributes.items().find(name);
  return found == attributes.items().end() ? "-" : fmt::format("{} = {}", name, to_string(found->second));
}

}  // namespace

std::vector<TensorChange> attribute_changes(const Plan& before, const Plan& after) {
  std::vector<Item> items = items_of(before);
  std::vector<Item> others = items_of(after);
  std::unordered_map<std::string, const Item*> by_name;
  for (const Item& other : others) by_name[other.tensor->name] = &other;
  std::vector<TensorChange> changes;
  for (const Item& item : items) {
    auto found = by_name.find(item.tensor->name);
    if (found == by_name.end()) continue;
    const Item& other = *found->second;
    if (other.op != item.op || other.tensor->type != item.tensor->type || *other.attributes == *item.attributes)
      continue;
    std::set<std::string> names;
    for (const auto& [name, value] : item.attributes->items()) names.insert(name);
    for (const auto& [name, value] : other.attributes->items()) names.insert(name);
    for (const std::string& name : names) {
      std::string a = text_of(*item.attributes, name);
      std::string b = text_of(*other.attributes, name);
      if (a != b) changes.push_back({item.tensor->name, item.layer, item.tensor->role, std::move(a), std::move(b)});
    }
  }
  return changes;
}

}  // namespace tpc

#include "compiler/plan/model_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

void collect_ops(const Json& node, const std::string& pointer, std::map<std::string, std::string>& ops) {
  if (!node.is_object()) return;
  if (node.contains("op") && node["op"].is_string()) ops[pointer] = node["op"].get<std::string>();
  if (!node.contains("layers") || !node["layers"].is_array()) return;
  for (size_t i = 0; i < node["layers"].size(); ++i) {
    collect_ops(node["layers"][i], fmt::format("{}/layers/{}", pointer, i), ops);
  }
}

bool is_weight(const PlanTensor& tensor) {
  return tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kState ||
         tensor.role == TensorRole::kGradient;
}

}  // namespace

ModelWords::ModelWords(const Plan& plan) : plan_(plan) {
  Json model = Json::parse(plan.model_json, nullptr, /*allow_exceptions=*/false);
  if (!model.is_object()) return;
  collect_ops(model, "", ops_);
  if (!model.contains("dims") || !model["dims"].is_object()) return;
  for (const auto& [name, size] : model["dims"].items()) {
    if (size.is_number_integer()) dims_.emplace_back(name, size.get<int64_t>());
  }
}

std::string ModelWords::layer_op(const std::string& origin) const {
  auto found = ops_.find(origin);
  return found == ops_.end() ? "" : found->second;
}

std::string ModelWords::dim_name(const PlanTensor& tensor, size_t dim) const {
  std::string unknown = fmt::format("dim {}", dim);
  if (dim >= tensor.type.shape.size()) return unknown;
  std::string found;
  for (const auto& [name, size] : dims_) {
    if (size != tensor.type.shape[dim]) continue;
    // Batch and sequence lead activations and stand nowhere else.
    bool leads = name == "batch" || name == "seq";
    size_t place = name == "batch" ? 0 : 1;
    if (leads && (is_weight(tensor) || dim != place)) continue;
    if (leads) return name;
    if (!found.empty()) return unknown;
    found = name;
  }
  return found.empty() ? unknown : found;
}

std::string ModelWords::placement(const PlanTensor& tensor) const {
  size_t other_axes = 0;
  for (const MeshAxis& axis : plan_.mesh.axes()) other_axes += user_axis(axis.name) == "dp" ? 0 : 1;
  std::string text;
  for (size_t i = 0; i < plan_.mesh.num_axes(); ++i) {
    const std::string& axis = plan_.mesh.axes()[i].name;
    const Placement& placement = tensor.sharding.placements[i];
    bool is_dp = user_axis(axis) == "dp";
    bool follows_dp = is_weight(tensor) ? placement.is_replicate() : placement.is_shard_of(0);
    if (placement.is_replicate() || (is_dp && follows_dp)) continue;
    std::string part = placement.is_partial() ? (placement.reduce == ReduceOp::kMax ? "partial max" : "partial sum")
                                              : "by " + dim_name(tensor, static_cast<size_t>(placement.dim));
    if (is_dp || other_axes > 1) part += " over " + axis;
    text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() ? "whole" : text;
}

std::string ModelWords::sizes() const {
  std::string text;
  for (const auto& [name, size] : dims_) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  return text;
}

}  // namespace tpc

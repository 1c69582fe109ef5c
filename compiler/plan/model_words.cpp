#include "compiler/plan/model_words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

bool is_weight(const PlanTensor& tensor) {
  return tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kWeight ||
         tensor.role == TensorRole::kState || tensor.role == TensorRole::kGradient;
}

void collect_words(const Json& node, std::vector<std::string>& words) {
  if (node.is_string()) words.push_back(node.get<std::string>());
  if (!node.is_structured()) return;
  for (const Json& child : node) collect_words(child, words);
}

}  // namespace

/// Walks the layers of a model, those inside repeated blocks too.
class LayerCollector {
 public:
  explicit LayerCollector(ModelWords& words) : words_(words) {}

  void collect(const Json& node, const std::string& pointer) {
    if (!node.is_object()) return;
    if (node.contains("op") && node["op"].is_string()) {
      ModelWords::Layer& layer = words_.layers_[pointer];
      layer.op = node["op"].get<std::string>();
      collect_words(node, layer.words);
      if (node.contains("out")) collect_words(node["out"], words_.output_names_);
    }
    if (!node.contains("layers") || !node["layers"].is_array()) return;
    for (size_t i = 0; i < node["layers"].size(); ++i) {
      collect(node["layers"][i], fmt::format("{}/layers/{}", pointer, i));
    }
  }

 private:
  ModelWords& words_;
};

std::string user_mesh(const DeviceMesh& mesh) {
  std::string text;
  for (size_t i = 0; i < mesh.num_axes();) {
    std::string_view name = user_axis(mesh.axes()[i].name);
    int64_t size = 1;
    std::string parts;
    size_t first = i;
    for (; i < mesh.num_axes() && user_axis(mesh.axes()[i].name) == name; ++i) {
      size *= mesh.axis_size(i);
      parts += fmt::format("{}{}", parts.empty() ? "" : "x", mesh.axis_size(i));
    }
    text += fmt::format("{}{}={}{}", text.empty() ? "" : ", ", name, size, i - first > 1 ? " as " + parts : "");
  }
  return "mesh [" + text + "]";
}

ModelWords::ModelWords(const Plan& plan) : plan_(plan) {
  Json model = Json::parse(plan.model_json, nullptr, /*allow_exceptions=*/false);
  if (!model.is_object()) return;
  LayerCollector(*this).collect(model, "");
  if (!model.contains("dims") || !model["dims"].is_object()) return;
  for (const auto& [name, size] : model["dims"].items()) {
    if (size.is_number_integer()) dims_.emplace_back(name, size.get<int64_t>());
  }
}

std::string ModelWords::layer_op(const std::string& origin) const {
  auto found = layers_.find(origin);
  return found == layers_.end() ? "" : found->second.op;
}

std::string ModelWords::dim_name(const PlanTensor& tensor, size_t dim, const std::string& origin) const {
  const Shape& shape = tensor.type.shape;
  std::string unknown = fmt::format("dim {}", dim);
  if (dim >= shape.size()) return unknown;
  // Batch and sequence stand together, mostly first, in activations and nowhere else.
  size_t batch = 0;
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (shape[i] != size_of("batch") || shape[i + 1] != size_of("seq")) continue;
    batch = i;
    break;
  }
  auto leads = [&](size_t place, int64_t size) {
    return !is_weight(tensor) &&
           ((place == batch && size_of("batch") == size) || (place == batch + 1 && size_of("seq") == size));
  };
  if (leads(dim, shape[dim])) return dim == batch ? "batch" : "seq";
  std::vector<std::string> found;
  for (const auto& [name, size] : dims_) {
    if (size == shape[dim] && name != "batch" && name != "seq") found.push_back(name);
  }
  auto narrow = [&](const std::vector<std::string>& names) {
    std::vector<std::string> kept;
    for (const std::string& name : names) {
      bool is_candidate = std::find(found.begin(), found.end(), name) != found.end();
      if (is_candidate && std::find(kept.begin(), kept.end(), name) == kept.end()) kept.push_back(name);
    }
    if (!kept.empty()) found = std::move(kept);
  };
  auto layer = layers_.find(origin);
  if (found.size() > 1 && layer != layers_.end()) narrow(layer->second.words);
  if (found.size() > 1 && !is_weight(tensor)) narrow(output_names_);
  if (found.size() == 1) return found[0];
  // Heads and their size may be equal: then the names stand for the equal dimensions in order.
  size_t before = 0;
  size_t equal = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != shape[dim] || leads(i, shape[i])) continue;
    before += i < dim ? 1 : 0;
    ++equal;
  }
  return equal == found.size() && !found.empty() ? found[before] : unknown;
}

std::string ModelWords::placement(const PlanTensor& tensor, const std::string& origin) const {
  // Placements in the order of their first axis, with all the axes that have them.
  std::vector<std::pair<std::string, std::vector<int64_t>>> parts;
  for (size_t i = 0; i < plan_.mesh.num_axes(); ++i) {
    const Placement& placement = tensor.sharding.placements[i];
    bool is_dp = user_axis(plan_.mesh.axes()[i].name) == "dp";
    if (placement.is_replicate() || (is_dp && splits_batch(tensor, placement, origin))) continue;
    std::string words = placement.is_partial() ? (placement.reduce == ReduceOp::kMax ? "partial max" : "partial sum")
                                               : "by " + dim_name(tensor, static_cast<size_t>(placement.dim), origin);
    auto same = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.first == words; });
    if (same == parts.end()) same = parts.insert(parts.end(), {words, {}});
    same->second.push_back(static_cast<int64_t>(i));
  }
  std::string text;
  for (const auto& [words, axes] : parts) {
    std::string axis = axes_name(plan_.mesh, axes);
    text += (text.empty() ? "" : ", ") + words + (axis == "tp" ? "" : " over " + axis);
  }
  return text.empty() ? "whole" : text;
}

bool ModelWords::splits_batch(const PlanTensor& tensor, const Placement& placement, const std::string& origin) const {
  if (!placement.is_shard() || is_weight(tensor)) return false;
  return placement.dim == 0 || dim_name(tensor, static_cast<size_t>(placement.dim), origin) == "batch";
}

int64_t ModelWords::size_of(std::string_view name) const {
  auto found = std::find_if(dims_.begin(), dims_.end(), [&](const auto& dim) { return dim.first == name; });
  return found == dims_.end() ? -1 : found->second;
}

std::string ModelWords::sizes() const {
  std::string text;
  for (const auto& [name, size] : dims_) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  return text;
}

}  // namespace tpc

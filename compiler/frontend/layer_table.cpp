#include "compiler/frontend/layer_table.h"

#include <fmt/format.h>

#include <iterator>

namespace tpc {
namespace {

std::vector<LayerDef> collect_layers() {
  std::vector<LayerDef> all;
  for (auto family : {linear_layers, norm_layers, attention_layers, elementwise_layers, shape_layers, loss_layers}) {
    std::vector<LayerDef> layers = family();
    all.insert(all.end(), std::make_move_iterator(layers.begin()), std::make_move_iterator(layers.end()));
  }
  return all;
}

}  // namespace

const std::vector<LayerKey>& shared_layer_keys() {
  static const std::vector<LayerKey> keys = {
      {"name", "NAME", "how other layers call it"},
      {"op", "WORD", "which layer it is"},
      {"shard", "see Annotations", "placements that you fix"},
      {"comment", "text", "for readers; ignored"},
  };
  return keys;
}

const std::vector<LayerDef>& all_layers() {
  static const std::vector<LayerDef> layers = collect_layers();
  return layers;
}

const LayerDef* find_layer(std::string_view name) {
  for (const LayerDef& layer : all_layers()) {
    if (layer.name == name) return &layer;
  }
  return nullptr;
}

std::string layers_markdown() {
  std::string out;
  for (const LayerDef& layer : all_layers()) {
    out += fmt::format("### {}\n\n{}\n\n| key | value | meaning |\n|---|---|---|\n", layer.name, layer.summary);
    for (const LayerKey& key : layer.keys) out += fmt::format("| `{}` | {} | {} |\n", key.name, key.value, key.summary);
    out += "\n";
  }
  return out;
}

}  // namespace tpc

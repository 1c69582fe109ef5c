/// The layers of the model file: one row each, defined by families in layers_*.cpp. A new layer is a row there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontend/layer_builder.h"

namespace tpc {

struct LayerKey {
  std::string_view name;
  /// What may stand there: "NAME", "SIZES", "true or false", ...
  std::string_view value;
  /// Meaning and default.
  std::string_view summary;
};

/// What the annotated node's operand 1 is, for "shard".
enum class WeightRole {
  kNone,
  kWeight,  ///< a weight that may be pinned by "weight"
  kLinear,  ///< the same, and the layer may be "column" or "row"
};

struct LayerDef {
  std::string_view name;
  /// One line with the formula.
  std::string_view summary;
  /// Without name, op, shard and comment, which every layer has.
  std::vector<LayerKey> keys;
  /// Appends the layer's nodes; the last one's first result is called like the layer. Returns that result.
  Tensor (*expand)(LayerBuilder&);
  WeightRole weight = WeightRole::kNone;
};

/// Keys that every layer has.
const std::vector<LayerKey>& shared_layer_keys();

/// Every layer, family by family.
const std::vector<LayerDef>& all_layers();
/// nullptr when no layer has that name.
const LayerDef* find_layer(std::string_view name);

/// The reference of all layers and their keys, as it stands in docs/model-format.md.
std::string layers_markdown();

// The families.
std::vector<LayerDef> linear_layers();
std::vector<LayerDef> norm_layers();
std::vector<LayerDef> attention_layers();
std::vector<LayerDef> elementwise_layers();
std::vector<LayerDef> shape_layers();
std::vector<LayerDef> loss_layers();

}  // namespace tpc

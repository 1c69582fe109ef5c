/// The layers of a model, block by block: names, scopes and repetition. What a layer means stands in layers_*.cpp.
#pragma once

#include <string>

#include "compiler/frontend/layer_builder.h"

namespace tpc {

/// Layers after all repetition.
constexpr int64_t kMostLayers = 100'000;
/// Blocks within one another at most this deep.
constexpr size_t kDeepestBlocks = 4;
/// Mistakes that one run lists.
constexpr size_t kMostErrors = 20;

class LayerListReader {
 public:
  explicit LayerListReader(ModelContext& model) : model_(model) {}

  /// Appends the nodes of every layer in `layers` ("layers" of the model). Mistakes go to the model's sink; layers that
  /// depend on a layer with a mistake are passed over in silence. False when it stopped before the end, so that later
  /// names are not known.
  bool read(const JsonNode& layers);

 private:
  void read_list(const JsonNode& layers);
  void read_layer(const JsonNode& layer);
  void expand_layer(const JsonNode& layer, const std::string& full_name);
  void read_block(const JsonNode& block);
  void read_iterations(const JsonNode& block, int64_t count, const std::string& template_name);
  /// Declares the carried name of one iteration and reads its layers.
  void read_iteration(const JsonNode& block, const std::string& template_name, int64_t index,
                      std::optional<Tensor>& carried);

  void declare(const JsonNode& place, const std::string& full_name, NameEntry entry);
  bool is_full() const;
  size_t num_errors() const;
  /// Runs `read`; a UserError goes to the sink. False when it threw.
  template <class Read>
  bool collect(const Read& read);

  ModelContext& model_;
  LayerScope scope_;
  int64_t num_layers_ = 0;
};

}  // namespace tpc

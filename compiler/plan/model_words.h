/// A plan in the words of the model that it carries: sizes by name, layers by what the user called them, placements by
/// the dimension that is split.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc {

/// The mesh with the axes that the user named: "mesh [dp=2, tp=16 as 8x2]" where the compiler split tp.
std::string user_mesh(const DeviceMesh& mesh);

class ModelWords {
 public:
  explicit ModelWords(const Plan& plan);

  /// The "op" of the layer at that place in the model file ("linear"); "" when unknown.
  std::string layer_op(const std::string& origin) const;

  /// The name of a size ("heads"), or "dim 2" when the model gives none or several that fit. Where several sizes are
  /// equal, those count that the layer at `origin` mentions, then those that some layer gives its result, in that
  /// order.
  std::string dim_name(const PlanTensor& tensor, size_t dim, const std::string& origin) const;

  /// How a tensor lies on the axes other than dp: "whole", "by heads", "partial sum"; with the axis where it is not
  /// all of tp. A dp axis is told only where it does not follow the rule (activations by batch, weights whole).
  std::string placement(const PlanTensor& tensor, const std::string& origin) const;

  /// That is what dp does to activations: their batch, or what stands in its place.
  bool splits_batch(const PlanTensor& tensor, const Placement& placement, const std::string& origin) const;

  /// "batch 4, seq 32, hidden 128", as the model file lists them.
  std::string sizes() const;
  const std::vector<std::pair<std::string, int64_t>>& dims() const { return dims_; }

 private:
  /// -1 when there is none of that name.
  int64_t size_of(std::string_view name) const;

  const Plan& plan_;
  std::vector<std::pair<std::string, int64_t>> dims_;
  struct Layer {
    std::string op;
    std::vector<std::string> words;  ///< every text in its object, in order
  };
  std::map<std::string, Layer> layers_;    ///< by JSON pointer
  std::vector<std::string> output_names_;  ///< sizes that layers give their results ("out"), in order

  friend class LayerCollector;
};

}  // namespace tpc

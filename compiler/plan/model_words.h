/// A plan in the words of the model that it carries: sizes by name, layers by what the user called them, placements by
/// the dimension that is split.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc {

class ModelWords {
 public:
  explicit ModelWords(const Plan& plan);

  /// The "op" of the layer at that place in the model file ("linear"); "" when unknown.
  std::string layer_op(const std::string& origin) const;

  /// The name of a size ("heads"), or "dim 2" when the model gives none or several that fit.
  std::string dim_name(const PlanTensor& tensor, size_t dim) const;

  /// How a tensor lies on the axes other than dp: "whole", "by heads", "partial sum"; with the axis when there are
  /// several. A dp axis is told only where it does not follow the rule (activations by batch, weights whole).
  std::string placement(const PlanTensor& tensor) const;

  /// "batch 4, seq 32, hidden 128", as the model file lists them.
  std::string sizes() const;

 private:
  const Plan& plan_;
  std::vector<std::pair<std::string, int64_t>> dims_;
  std::map<std::string, std::string> ops_;  ///< by JSON pointer
};

}  // namespace tpc

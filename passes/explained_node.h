/// What a name on the command line means in a plan: a layer, a tensor, a step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/report.h"

namespace tpc {

struct ExplainedNode {
  enum class Kind : uint8_t { kLayer, kTensor, kStep };
  Kind kind = Kind::kLayer;
  std::string name;
  /// The steps that do its work, moves aside: of a layer all, of a tensor the one that made it before any move (those
  /// that read it, when it persists), of a step itself.
  std::vector<int> steps;
  /// Indices into Report::collectives: of a layer those of what it makes and reads, of a tensor those that move it, of
  /// what a move made the moves that led to it.
  std::vector<size_t> collectives;
  int tensor = -1;  ///< of kTensor
  /// The layers that the work is of.
  std::vector<std::string> layers;
};

/// Layers before tensors before numbers of steps; nullopt when there is none of that name.
std::optional<ExplainedNode> find_node(const Plan& plan, const Report& report, const std::string& name);

/// All names that find_node() knows, for the nearest.
std::vector<std::string> node_names(const Plan& plan);

}  // namespace tpc

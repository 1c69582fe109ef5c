/// Holds a graph to the stage that a pass promised.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/graph.h"

namespace tpc {

/// The first broken invariant, in words that name the node; nullopt when `graph` is what `stage` promises (see Stage).
std::optional<std::string> verify_graph(const Graph& graph, Stage stage);

}  // namespace tpc

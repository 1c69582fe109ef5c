/// Nodes that nobody reads.
#pragma once

#include "compiler/ir/graph.h"

namespace tpc {

/// Drops nodes whose results are read by no output or update, and values that no node makes; the others are renumbered.
/// Leaves stay: an input or a frozen parameter that nobody reads is still part of the model.
Graph remove_dead_nodes(Graph graph);

}  // namespace tpc

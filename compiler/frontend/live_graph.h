/// What the loss does not need is left out of the graph.
#pragma once

#include "compiler/core/diagnostic.h"
#include "compiler/ir/graph.h"

namespace tpc {

/// Keeps the nodes behind the graph's sinks, values renumbered in their old order. A layer or input that leads nowhere
/// is a warning at its place (one a place: repetitions of a block share theirs). Without a trainable parameter behind
/// the loss there is nothing to do, which is an error at the loss.
Graph drop_unused(Graph graph, DiagnosticSink& sink);

}  // namespace tpc

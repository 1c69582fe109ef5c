/// The user's annotations ("shard" in the model file), as constraints on the choices of a strategy.
#pragma once

#include "compiler/core/diagnostic.h"
#include "passes/strategies/axis_state.h"

namespace tpc {

bool has_annotations(const Graph& graph);

/// What a forward node does on an axis agrees with its annotation (always, when it has none).
bool agrees_with_annotation(const Node& node, const ShardingRule& rule, Strategy strategy);

/// Reports, with both mends, an annotation that no rule of the op or no size allows, and two annotations that pin one
/// weight differently.
void check_annotations(const AxisState& state, DiagnosticSink& diagnostics);

/// Replaces the strategy of every annotated forward node that does not agree with its annotation by the cheapest one
/// that does. Reports what check_annotations() reports; warns where a pin makes a layer gather what the next layer
/// splits again.
void apply_annotations(AxisState& state, DiagnosticSink& diagnostics);

}  // namespace tpc

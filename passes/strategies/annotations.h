/// The user's annotations ("shard" in the model file), as constraints on the choices of a strategy.
#pragma once

#include "compiler/core/diagnostic.h"
#include "passes/strategies/axis_state.h"

namespace tpc {

/// Replaces the strategy of every annotated forward node that does not agree with its annotation by the cheapest one
/// that does. Reports, with both mends, an annotation that no rule of the op allows, and two annotations that pin one
/// weight differently; warns where a pin makes a layer gather what the next layer splits again.
void apply_annotations(AxisState& state, DiagnosticSink& diagnostics);

}  // namespace tpc

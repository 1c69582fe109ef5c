/// Sums that are whole where they are made need no f32 form.
#pragma once

#include "passes/pass.h"

namespace tpc {

/// merge-casts: a node whose sums are f32 and only ever cast makes them in the type of the cast at once.
///   %y : f32 @ [S(0)] = contract %x, %w {sums="f32"};  %y.bf16 : bf16 @ [S(0)] = cast %y
///     -> %y.bf16 : bf16 @ [S(0)] = contract %x, %w
/// Not where ranks hold parts of the sum: rounded parts do not add up to the rounded sum. Needs and gives collective:
/// only now is it known which sums a collective completes.
Graph merge_casts(Graph graph, const PassContext& context);

}  // namespace tpc

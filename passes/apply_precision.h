/// Element types where the model computes in bf16.
#pragma once

#include "passes/pass.h"

namespace tpc {

/// apply-precision: activations and their gradients become bf16 where Graph::precision says so; parameters, their
/// gradients, the optimizer, statistics and losses stay f32. The roles of ops' operands and results (OpDef::floats) say
/// which is which; where a use wants another type, a cast is inserted, one for all uses of a value. With `reduce` f32:
///   %w : f32 = parameter;  %y : f32 = contract %x, %w;  %z : f32 = unary %y
///     -> %w.bf16 : bf16 = cast %w;  %y : f32 = contract %x, %w.bf16 {sums="f32"};  %y.bf16 : bf16 = cast %y;
///        %z : bf16 = unary %y.bf16
/// so that a strategy may leave %y a partial sum: what completes it stands before the cast, and no part of a sum is
/// rounded. merge-casts puts the two together again where nothing came between. With `reduce` bf16 the contraction
/// makes bf16 at once, but for sums that are wanted in f32: gradients of parameters.
/// Needs and gives differentiated. Gradients are made of a graph in f32, so that no op's gradient knows of types; and
/// strategies see the types that travel.
Graph apply_precision(Graph graph, const PassContext& context);

}  // namespace tpc

/// insert-redistributes: where a use wants a tensor otherwise than it is made, one explicit redistribute node.
///
///   %y @ [P(sum)] = ..; %z = add %x, %y uses [R] [R]
///     -> %y @ [P(sum)]; %y.R @ [R] = redistribute %y; %z = add %x, %y.R
///
/// Uses of one tensor share their conversions (ConversionGraph::provide; by way of Value::via where a strategy says
/// so): forward and backward together, unless the strategy keeps certain forms for backward (Value::kept). A node
/// stands right before its first use and has that use's phase, with two exceptions: what is kept is made at the end of
/// forward, and a gradient is reduced where it is made, if that takes no more memory. `why` says who made the placement
/// and who wants the other.
///
/// Needs placed, gives reconciled. Conversions are explicit before any collective is chosen, so that they can be
/// counted and shared.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph insert_redistributes(Graph graph, const PassContext& context);

}  // namespace tpc

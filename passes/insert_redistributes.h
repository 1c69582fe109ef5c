/// insert-redistributes: where a use wants a tensor otherwise than it is made, one explicit redistribute node.
///
///   %y @ [P(sum)] = ..; %z = add %x, %y uses [R] [R]
///     -> %y @ [P(sum)]; %y.R @ [R] = redistribute %y; %z = add %x, %y.R
///
/// Uses that want the same placement of the same tensor share one node, also between forward and backward (the gathered
/// input of a column-parallel layer is kept for its weight gradient). The node stands right before its first use, has
/// that use's phase, and says in `why` who made the placement and who wants the other.
///
/// Needs placed, gives reconciled. Conversions are explicit before any collective is chosen, so that they can be
/// counted and shared.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph insert_redistributes(Graph graph, const PassContext& context);

}  // namespace tpc

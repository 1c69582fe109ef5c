/// assign-shardings: gives every use of every tensor a placement, and the graph its mesh.
///
///   %y = contract %x, %w {..}   ->   %y @ [P(sum)] = contract %x, %w {..} uses [S(2)] [S(1)]
///
/// A strategy (passes/strategies) chooses per node and axis among what the op's rule allows; operand and result
/// shardings follow from the rule. A parameter or state lies as its first use wants it; inputs are split along the
/// batch by the data axis; outputs are whole.
///
/// Needs differentiated, gives placed. After build-backward, so that gradients have placements of their own; before any
/// conversion is written down, so that a strategy sees only wishes.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph assign_shardings(Graph graph, const PassContext& context);

}  // namespace tpc

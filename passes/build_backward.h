/// build-backward: appends the gradients, the sums over several uses, the global gradient norm and the optimizer's
/// updates, all as ordinary nodes.
///
///   forward:   %y = contract %x, %w {einsum="bsh,fh->bsf"}
///   backward:  %gw = contract %gy, %x {einsum="bsf,bsh->fh"}
///   optimizer: %w2, %m2, %v2 = adamw %w, %gw, %m, %v;  update %w, %w2; ...
///
/// Needs typed, gives differentiated. Before any sharding: the sharder sees the whole training step, so no collective
/// ever needs a gradient. Frozen parameters get no gradient, no state and no update.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph build_backward(Graph graph, const PassContext& context);

}  // namespace tpc

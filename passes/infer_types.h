/// infer-types: every value gets the dtype and shape that its op infers from its operands.
///
///   %3 = contract %1, %2 {einsum="bsh,fh->bsf"}   ->   the same, : f32[4, 32, 512]
///
/// Needs parsed, gives typed. First, because every later pass asks for shapes. A mismatch is the user's: it is reported
/// at the layer that the node came from.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph infer_types(Graph graph, const PassContext& context);

}  // namespace tpc

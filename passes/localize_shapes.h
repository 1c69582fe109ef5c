/// localize-shapes: records for every value the shape of the fullest rank's part, which sizes its buffer on all ranks.
///
///   %y : f32[4, 32, 512] @ [S(2)]   on tp=3   ->   the same, local f32[4, 32, 171]
///
/// What each single rank holds stays a function of (shape, sharding, mesh, coordinate): local_region in
/// compiler/sharding/placement.h. Needs collective, gives local.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph localize_shapes(Graph graph, const PassContext& context);

}  // namespace tpc

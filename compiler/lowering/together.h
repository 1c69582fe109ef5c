/// Which steps one launch of a GPU does together.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/lowering/local_step.h"

namespace tpc {

/// How many of the first steps, at least 1: a contraction with what its product can do on the way (see
/// fuse_contractions), or steps of one op that many small tensors go through (optimizer, sums of squares, updates) when
/// none of them reads or writes what another writes.
size_t num_together(std::span<const LocalStep> steps);

/// Whether many steps of the op go out in one launch.
bool is_grouped(OpKind op);

}  // namespace tpc

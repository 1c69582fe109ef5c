/// Reduction of the same run of elements of several ranks' tensors.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/core/bfloat16.h"
#include "compiler/sharding/placement.h"

namespace tpc {

/// target[i] = sources[0][offset + i] op sources[1][offset + i] op ..., strictly from left to right, for i < length.
/// `target` may be the run of one of the sources itself, but may not overlap them otherwise. A NaN stays a NaN.
void reduce_run(ReduceOp op, std::span<const float* const> sources, int64_t offset, float* target, int64_t length);
/// The same in float, rounded once at the end.
void reduce_run(ReduceOp op, std::span<const BFloat16* const> sources, int64_t offset, BFloat16* target,
                int64_t length);

}  // namespace tpc

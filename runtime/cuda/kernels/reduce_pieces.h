/// The sum of what a rank's peers have sent it.
#pragma once

#include <cstdint>

#include "compiler/core/dtype.h"
#include "compiler/sharding/placement.h"
#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

/// to[i] = pieces[0][i] op pieces[1][i] op ..., in that order, for i < count; piece p begins at element p * count. In
/// float, rounded once. f32 and bf16.
void reduce_pieces(const DeviceQueue& queue, DType dtype, ReduceOp op, const void* pieces, void* to, int64_t count,
                   int64_t num_pieces);

}  // namespace tpc::cuda

/// Working memory that a GPU's kernels and products need beside the arena of the plan.
#pragma once

#include <cstdint>

#include "compiler/lowering/matmul.h"

namespace tpc {

/// What cuBLASLt is given on a Hopper GPU; with less it leaves out its best algorithms.
inline constexpr int64_t kMatmulWorkspace = int64_t{32} << 20;

/// Of a matrix that is copied before or after its product, in whole lines; 0 for others.
int64_t packed_matrix_bytes(const BlasMatrix& matrix);

}  // namespace tpc

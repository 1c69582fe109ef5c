/// Launches with a block for each row of a tensor, its last dimension.
#pragma once

#include <algorithm>

#include "compiler/lowering/local_step.h"
#include "runtime/cuda/kernels/launch.h"

namespace tpc::cuda {

constexpr unsigned kMaxRowThreads = 512;

struct RowsOfBlocks {
  int64_t rows = 0;
  int64_t length = 0;

  explicit RowsOfBlocks(const LocalTensor& tensor)
      : rows(tensor.region.num_elements() / tensor.region.dims.back().size()),
        length(tensor.region.dims.back().size()) {}

  /// Whole warps, each thread with some packs of the row.
  LaunchShape shape() const {
    constexpr int64_t kElementsOfThread = 16;
    const int64_t warps = std::max<int64_t>(1, length / (32 * kElementsOfThread));
    const unsigned wanted = static_cast<unsigned>(std::min<int64_t>(32 * warps, kMaxRowThreads));
    return {.blocks = rows, .threads = gpu::block_threads(wanted)};
  }
};

}  // namespace tpc::cuda

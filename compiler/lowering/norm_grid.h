/// Blocks and threads of a GPU's normalisations, one row after the other.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tpc {

inline constexpr int kMaxNormThreads = 512;

/// Threads of a block for rows of `length` elements of `element_bytes`: enough for 16 bytes each, where that is
/// possible.
constexpr int64_t norm_threads(int64_t length, int64_t element_bytes) {
  constexpr int64_t kWarp = 32;
  const int64_t elements_of_warp = kWarp * 16 / element_bytes;
  return std::min(kWarp * ((length + elements_of_warp - 1) / elements_of_warp), int64_t{kMaxNormThreads});
}

/// Blocks of the gradient, each of which leaves sums for all columns in the working memory: so many rows a block that
/// these are worth their memory, and so many blocks that a device is full.
constexpr int64_t norm_grad_blocks(int64_t rows, int64_t length, int64_t element_bytes) {
  constexpr int64_t kRowsOfBlock = 16;
  constexpr int64_t kThreadsOfDevice = 1 << 17;
  return std::min((rows + kRowsOfBlock - 1) / kRowsOfBlock, kThreadsOfDevice / norm_threads(length, element_bytes));
}

}  // namespace tpc

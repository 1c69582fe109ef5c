/// How kernels over many tensors part them among blocks.
#pragma once

#include <cstdint>

namespace tpc {

/// Elements of a chunk: some tens of microseconds of a block's share of a GPU's memory; a multiple of every pack.
inline constexpr int64_t kChunkSize = 1 << 13;

/// Of a tensor of `size` elements.
inline int64_t num_chunks(int64_t size) { return (size + kChunkSize - 1) / kChunkSize; }

}  // namespace tpc

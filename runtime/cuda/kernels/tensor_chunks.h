/// One launch over many tensors: every block does one chunk of one of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/lowering/local_step.h"
#include "compiler/lowering/tensor_chunks.h"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {

/// Elements [index * kChunkSize, (index + 1) * kChunkSize) of a tensor, as far as it has them.
struct Chunk {
  int32_t tensor = 0;
  int32_t index = 0;
};

/// The chunks of tensors of these sizes, tensor after tensor.
inline std::vector<Chunk> chunks_of(std::span<const int64_t> sizes) {
  std::vector<Chunk> chunks;
  for (size_t tensor = 0; tensor < sizes.size(); ++tensor) {
    const int64_t count = num_chunks(sizes[tensor]);
    for (int64_t i = 0; i < count; ++i) chunks.push_back({static_cast<int32_t>(tensor), static_cast<int32_t>(i)});
  }
  return chunks;
}

/// The same for the first results of the steps, which are all updated as they lie.
inline std::vector<Chunk> chunks_of_results(std::span<const LocalStep> steps) {
  std::vector<int64_t> sizes;
  for (const LocalStep& step : steps) sizes.push_back(step.results[0].region.num_elements());
  return chunks_of(sizes);
}

/// Whether 16 bytes of each tensor can be accessed at once at its start.
inline bool are_packed(std::span<const LocalTensor> tensors) {
  for (const LocalTensor& tensor : tensors) {
    if (!is_pack_aligned(tensor.data)) return false;
  }
  return true;
}

}  // namespace tpc::cuda

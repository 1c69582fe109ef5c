// Sums of squares of many tensors, in double: chunks first, then the chunks of each tensor in a fixed order.
#include "runtime/cuda/device_table.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/block_reduce.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"
#include "runtime/cuda/kernels/tensor_chunks.h"

namespace tpc::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kFinishThreads = 128;

struct SquaresTensor {
  const float* x;
  float* y;
  int64_t size;
  int64_t first_chunk;  // of all chunks of the group
  bool packed;
};

__global__ void __launch_bounds__(kThreads)
    sum_squares_chunks(const SquaresTensor* tensors, const Chunk* chunks, double* sums) {
  GPU_SHARED(double, warps, kMaxWarps);
  const Chunk chunk = chunks[blockIdx.x];
  const SquaresTensor tensor = tensors[chunk.tensor];
  const int64_t begin = chunk.index * kChunkSize;
  const int64_t end = min(tensor.size, begin + kChunkSize);
  double sum = 0;
  for_each_pack<4>(begin, end, tensor.packed, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    const auto x = load_pack<kSize>(tensor.x + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const double value = x.values[j];
      sum += value * value;
    }
  });
  const double total = reduce_block(sum, warps, Sum{});
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kFinishThreads)
    sum_squares_tensors(const SquaresTensor* tensors, const double* sums) {
  GPU_SHARED(double, warps, kMaxWarps);
  const SquaresTensor tensor = tensors[blockIdx.x];
  const int64_t count = (tensor.size + kChunkSize - 1) / kChunkSize;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += sums[tensor.first_chunk + i];
  const double total = reduce_block(sum, warps, Sum{});
  if (threadIdx.x == 0) *tensor.y = static_cast<float>(total);
}

}  // namespace

std::unique_ptr<Kernel> prepare_sum_squares_group(std::span<const LocalStep> steps, DeviceQueue& queue) {
  std::vector<SquaresTensor> tensors;
  std::vector<int64_t> sizes;
  int64_t chunks_before = 0;
  for (const LocalStep& step : steps) {
    const LocalTensor& x = step.operands[0];
    sizes.push_back(x.region.num_elements());
    tensors.push_back({.x = data_of<float>(x),
                       .y = data_of<float>(step.results[0]),
                       .size = sizes.back(),
                       .first_chunk = chunks_before,
                       .packed = are_packed(std::span(step.operands))});
    chunks_before += num_chunks(sizes.back());
  }
  const std::vector<Chunk> chunks = chunks_of(sizes);
  queue.reserve(static_cast<int64_t>(chunks.size() * sizeof(double)));
  return make_kernel(
      [&queue, num_chunks = static_cast<int64_t>(chunks.size()), num_tensors = static_cast<int64_t>(tensors.size()),
       tensor_table = DeviceTable<SquaresTensor>(tensors, queue), chunk_table = DeviceTable<Chunk>(chunks, queue)] {
        double* sums = reinterpret_cast<double*>(queue.workspace());
        launch("sum_squares_chunks", sum_squares_chunks,
               {.blocks = num_chunks, .threads = gpu::block_threads(kThreads)}, queue, tensor_table.data(),
               chunk_table.data(), sums);
        launch("sum_squares_tensors", sum_squares_tensors,
               {.blocks = num_tensors, .threads = gpu::block_threads(kFinishThreads)}, queue, tensor_table.data(),
               static_cast<const double*>(sums));
      });
}

}  // namespace tpc::cuda

/// Sums down the columns of matrices, in an order that depends on shape and block size only.
#pragma once

#include <cstdint>
#include <limits>

#include "compiler/lowering/sum_stages.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {

constexpr unsigned kColumnThreads = 256;

/// Where sum number i goes: two tensors, one after the other in i. first may be all of it.
template <class Y>
struct SumTarget {
  Y* first = nullptr;
  Y* second = nullptr;
  int64_t split = std::numeric_limits<int64_t>::max();

  __device__ __forceinline__ void set(int64_t i, float sum) const {
    if (i < split) {
      first[i] = from_float<Y>(sum);
    } else {
      second[i - split] = from_float<Y>(sum);
    }
  }
};

// The sum for (chunk, batch, column) goes to number (chunk * batches + batch) * columns + column. A warp walks rows
// with N columns a lane; the warps of a block share the rows of a chunk.
template <int N, class X, class Y>
__global__ void __launch_bounds__(kColumnThreads)
    sum_columns(const __grid_constant__ ColumnShape shape, const X* x, SumTarget<Y> target) {
  constexpr int kColumns = 32 * N;
  using Row = float[kColumns];
  GPU_SHARED(Row, sums, kColumnThreads / 32);
  const int64_t column_blocks = (shape.columns + kColumns - 1) / kColumns;
  const int64_t first_column = blockIdx.x % column_blocks * kColumns;
  const int64_t batch = blockIdx.x / column_blocks % shape.batches;
  const int64_t chunk = blockIdx.x / (column_blocks * shape.batches);
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = blockDim.x / 32;

  const int64_t column = first_column + lane * N;
  const int64_t last_row = min(shape.rows, (chunk + 1) * shape.rows_of_chunk);
  float sum[N] = {};
  if (column < shape.columns) {
    const X* from = x + batch * shape.rows * shape.columns + column;
    for (int64_t row = chunk * shape.rows_of_chunk + warp; row < last_row; row += warps) {
      const Pack<X, N> values = load_pack<N>(from + row * shape.columns);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += to_float(values.values[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j) sums[warp][lane * N + j] = sum[j];
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kColumns; i += blockDim.x) {
    if (first_column + i >= shape.columns) continue;
    float total = 0;
    for (unsigned w = 0; w < warps; ++w) total += sums[w][i];
    target.set((chunk * shape.batches + batch) * shape.columns + first_column + i, total);
  }
}

/// Puts on the stream: the sum of each chunk of each column. With several chunks the target is to be summed again, as
/// one batch of `chunks` rows.
template <class X, class Y>
void launch_sum_columns(const DeviceQueue& queue, const ColumnShape& shape, const X* x, const SumTarget<Y>& target) {
  const auto launch_with = [&](auto pack) {
    constexpr int kSize = decltype(pack)::kSize;
    const int64_t blocks = ceil_div(shape.columns, 32 * kSize) * shape.batches * shape.chunks;
    launch("sum_columns", sum_columns<kSize, X, Y>, {.blocks = blocks, .threads = gpu::block_threads(kColumnThreads)},
           queue, shape, x, target);
  };
  constexpr int kSize = kPackSize<X>;
  if (is_pack_aligned(x) && shape.columns % kSize == 0 && shape.columns >= 32 * kSize) {
    launch_with(PackOf<kSize>{});
  } else {
    launch_with(PackOf<1>{});
  }
}

}  // namespace tpc::cuda

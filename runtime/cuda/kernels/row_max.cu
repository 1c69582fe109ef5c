// The maximum over the last dimension: a block a row.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/block_reduce.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/packs.cuh"
#include "runtime/cuda/kernels/row_threads.h"

namespace tpc::cuda {
namespace {

template <class T, class M>
__global__ void __launch_bounds__(kMaxRowThreads) row_max(const T* x, M* m, int64_t length) {
  GPU_SHARED(float, warps, kMaxWarps);
  const T* row = x + blockIdx.x * length;
  float largest = -INFINITY;
  for_each_pack_of_row(row, length, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    const auto values = load_pack<kSize>(row + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) largest = fmaxf(largest, to_float(values.values[j]));
  });
  largest = reduce_block(largest, warps, Maximum{});
  if (threadIdx.x == 0) m[blockIdx.x] = from_float<M>(largest);
}

}  // namespace

std::unique_ptr<Kernel> prepare_row_max(const LocalStep& step, DeviceQueue& queue) {
  const RowsOfBlocks rows(step.operands[0]);
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    return with_float_type(step.results[0].type.dtype, [&](auto maximum) {
      using T = decltype(element);
      using M = decltype(maximum);
      const T* x = data_of<T>(step.operands[0]);
      M* m = data_of<M>(step.results[0]);
      return make_kernel([=, &queue] { launch("row_max", row_max<T, M>, rows.shape(), queue, x, m, rows.length); });
    });
  });
}

}  // namespace tpc::cuda

/// Sums and maxima over the threads of a block, in an order that depends on the number of threads only.
#pragma once

#include "runtime/cuda/gpu.h"

namespace tpc::cuda {

constexpr unsigned kAllLanes = 0xffffffff;

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Maximum {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Over the `width` neighbouring lanes that a lane is one of; all of the warp's lanes take part. Every lane gets the
/// result.
template <int width, class T, class Combine>
__device__ __forceinline__ T reduce_lanes(T value, Combine combine) {
#pragma unroll
  for (int step = width / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

/// Over all threads of a block of whole warps; every thread gets the result. `warps` is shared, an element a warp; it
/// may be used again at once.
template <class T, class Combine>
__device__ __forceinline__ T reduce_block(T value, T* warps, Combine combine) {
  value = reduce_lanes<32>(value, combine);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) value = combine(value, warps[warp]);
  __syncthreads();
  return value;
}

/// Warps of the largest block.
constexpr int kMaxWarps = 32;

}  // namespace tpc::cuda

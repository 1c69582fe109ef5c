/// Normalisation over the last dimension and its gradient, a row by a block; of layer_norm (centred: about the mean)
/// and rms_norm. With n = (x - mean) * rstd and g = dy * gain:
///   y = n * gain + bias
///   dx = rstd * (g - avg(g) - n * avg(g * n)), dgain = sum over rows of dy * n, dbias = sum over rows of dy
/// where what is not centred has mean 0, no avg(g), no bias.
#pragma once

#include "compiler/lowering/norm_grid.h"
#include "runtime/cuda/kernels/block_reduce.cuh"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {

struct NormShape {
  int64_t rows = 0;
  int64_t length = 0;
  /// Packs may be accessed wherever a multiple of theirs in a row begins.
  bool packed = false;
};

/// N neighbours as floats; of any type, so in as many accesses as it takes.
template <int N, class T>
__device__ __forceinline__ void load_floats(const T* from, float (&values)[N]) {
  constexpr int kSize = N < kPackSize<T> ? N : kPackSize<T>;
#pragma unroll
  for (int i = 0; i < N; i += kSize) {
    const Pack<T, kSize> pack = load_pack<kSize>(from + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[i + j] = to_float(pack.values[j]);
  }
}

// A row is read two or three times, all but the first from the cache. bias and mean only where it is centred.
template <bool kCentred, class T, class P>
__global__ void __launch_bounds__(kMaxNormThreads) normalize_rows(NormShape shape, float eps, const T* x, const P* gain,
                                                                  const P* bias, T* y, float* mean, float* rstd) {
  GPU_SHARED(float, warps, kMaxWarps);
  const int64_t length = shape.length;
  const T* from = x + blockIdx.x * length;
  T* to = y + blockIdx.x * length;
  float average = 0;
  if constexpr (kCentred) {
    float sum = 0;
    for_each_pack<kPackSize<T>>(0, length, shape.packed, [&](auto pack, int64_t i) {
      float values[decltype(pack)::kSize];
      load_floats(from + i, values);
      for (float value : values) sum += value;
    });
    average = reduce_block(sum, warps, Sum{}) / static_cast<float>(length);
  }
  // About the mean, not from the squares: nothing cancels.
  float squares = 0;
  for_each_pack<kPackSize<T>>(0, length, shape.packed, [&](auto pack, int64_t i) {
    float values[decltype(pack)::kSize];
    load_floats(from + i, values);
    for (float value : values) squares += (value - average) * (value - average);
  });
  squares = reduce_block(squares, warps, Sum{});
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(length) + eps);
  for_each_pack<kPackSize<T>>(0, length, shape.packed, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    float values[kSize];
    float gains[kSize];
    float biases[kSize] = {};
    load_floats(from + i, values);
    load_floats(gain + i, gains);
    if constexpr (kCentred) load_floats(bias + i, biases);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = (values[j] - average) * scale * gains[j] + biases[j];
    store_floats(to + i, values);
  });
  if (threadIdx.x == 0) {
    if constexpr (kCentred) mean[blockIdx.x] = average;
    rstd[blockIdx.x] = scale;
  }
}

/// Sums over the block's rows that each thread keeps for its own columns: dgain, and dbias behind it.
template <bool kCentred>
constexpr int64_t kNormSums = kCentred ? 2 : 1;

// Block b does rows b, b + blocks, ...: dx, and its sums to parts[b]. These are made in shared memory where they fit.
template <bool kCentred, class T, class P>
__global__ void __launch_bounds__(kMaxNormThreads)
    normalize_rows_grad(NormShape shape, bool sums_in_shared, const T* dy, const T* x, const float* mean,
                        const float* rstd, const P* gain, T* dx, float* parts) {
  GPU_SHARED(float, warps, kMaxWarps);
  GPU_SHARED_DYN(float, shared_sums);
  constexpr int N = kPackSize<T>;
  const int64_t length = shape.length;
  float* part = parts + blockIdx.x * kNormSums<kCentred> * length;
  float* gain_sums = sums_in_shared ? shared_sums : part;
  float* bias_sums = gain_sums + length;
  for_each_pack<N>(0, length, shape.packed, [&](auto pack, int64_t i) {
    const float zeros[decltype(pack)::kSize] = {};
    store_floats(gain_sums + i, zeros);
    if constexpr (kCentred) store_floats(bias_sums + i, zeros);
  });
  for (int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const T* grads = dy + row * length;
    const T* from = x + row * length;
    T* to = dx + row * length;
    const float row_mean = kCentred ? mean[row] : 0.0f;
    const float row_rstd = rstd[row];
    float sum_g = 0;
    float sum_gn = 0;
    for_each_pack<N>(0, length, shape.packed, [&](auto pack, int64_t i) {
      constexpr int kSize = decltype(pack)::kSize;
      float values[kSize];
      float grad[kSize];
      float gains[kSize];
      load_floats(from + i, values);
      load_floats(grads + i, grad);
      load_floats(gain + i, gains);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float g = grad[j] * gains[j];
        sum_g += g;
        sum_gn += g * ((values[j] - row_mean) * row_rstd);
      }
    });
    const float average_g = kCentred ? reduce_block(sum_g, warps, Sum{}) / static_cast<float>(length) : 0.0f;
    const float average_gn = reduce_block(sum_gn, warps, Sum{}) / static_cast<float>(length);
    for_each_pack<N>(0, length, shape.packed, [&](auto pack, int64_t i) {
      constexpr int kSize = decltype(pack)::kSize;
      float values[kSize];
      float grad[kSize];
      float gains[kSize];
      float sums[kSize];
      load_floats(from + i, values);
      load_floats(grads + i, grad);
      load_floats(gain + i, gains);
      load_floats(gain_sums + i, sums);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float n = (values[j] - row_mean) * row_rstd;
        sums[j] += grad[j] * n;
        values[j] = row_rstd * (grad[j] * gains[j] - average_g - n * average_gn);
      }
      store_floats(gain_sums + i, sums);
      if constexpr (kCentred) {
        load_floats(bias_sums + i, sums);
#pragma unroll
        for (int j = 0; j < kSize; ++j) sums[j] += grad[j];
        store_floats(bias_sums + i, sums);
      }
      store_floats(to + i, values);
    });
  }
  if (!sums_in_shared) return;
  for_each_pack<N>(0, length, shape.packed, [&](auto pack, int64_t i) {
    float sums[decltype(pack)::kSize];
    load_floats(gain_sums + i, sums);
    store_floats(part + i, sums);
    if constexpr (kCentred) {
      load_floats(bias_sums + i, sums);
      store_floats(part + length + i, sums);
    }
  });
}

}  // namespace tpc::cuda

/// y[i] = function(x[i], ...): one pass over tensors of the same elements.
#pragma once

#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {

constexpr unsigned kMapThreads = 256;
/// One or two packs a thread; a multiple of every pack, so that blocks begin as aligned as the tensors.
constexpr int64_t kMapChunk = 2048;

inline LaunchShape map_shape(int64_t size) {
  return {.blocks = ceil_div(size, kMapChunk), .threads = gpu::block_threads(kMapThreads)};
}

/// Packs of 16 bytes of the widest of the types.
template <class... Types>
constexpr int kCommonPackSize = ((sizeof(Types) == 4) || ...) ? kPackSize<float> : kPackSize<__nv_bfloat16>;

/// function(floats...) returns a float; y may lie over any x of its type.
template <class Function, class Y, class... X>
__global__ void __launch_bounds__(kMapThreads)
    map_elements(Function function, int64_t size, bool packed, Y* y, const X*... x) {
  const int64_t begin = blockIdx.x * kMapChunk;
  for_each_pack<kCommonPackSize<Y, X...>>(begin, min(size, begin + kMapChunk), packed, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    const auto map = [&](const auto&... values) {
      Pack<Y, kSize> result;
#pragma unroll
      for (int j = 0; j < kSize; ++j) result.values[j] = from_float<Y>(function(to_float(values.values[j])...));
      store_pack(y + i, result);
    };
    map(load_pack<kSize>(x + i)...);
  });
}

template <class Function, class Y, class... X>
void launch_map(const char* name, const DeviceQueue& queue, int64_t size, Function function, Y* y, const X*... x) {
  if (size == 0) return;
  const bool packed = is_pack_aligned(y) && (is_pack_aligned(x) && ... && true);
  launch(name, map_elements<Function, Y, X...>, map_shape(size), queue, function, size, packed, y, x...);
}

}  // namespace tpc::cuda

#include "runtime/cuda/kernels/reduce_pieces.h"

#include <algorithm>

#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"

namespace tpc::cuda {
namespace {

template <class T, bool kIsMax>
__global__ void reduce_pieces_kernel(const T* pieces, T* to, int64_t count, int64_t num_pieces) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    float sum = static_cast<float>(pieces[i]);
    for (int64_t p = 1; p < num_pieces; ++p) {
      const float piece = static_cast<float>(pieces[p * count + i]);
      // A NaN stays a NaN.
      sum = kIsMax ? (piece > sum || piece != piece ? piece : sum) : sum + piece;
    }
    to[i] = static_cast<T>(sum);
  }
}

}  // namespace

void reduce_pieces(const DeviceQueue& queue, DType dtype, ReduceOp op, const void* pieces, void* to, int64_t count,
                   int64_t num_pieces) {
  constexpr int64_t kMostBlocks = 1024;
  const unsigned threads = gpu::block_threads(256);
  const LaunchShape shape{std::min(kMostBlocks, ceil_div(count, threads)), threads, 0};
  with_float_type(dtype, [&](auto type) {
    using T = decltype(type);
    auto* kernel = op == ReduceOp::kMax ? reduce_pieces_kernel<T, true> : reduce_pieces_kernel<T, false>;
    launch("reduce_pieces", kernel, shape, queue, static_cast<const T*>(pieces), static_cast<T*>(to), count,
           num_pieces);
  });
}

}  // namespace tpc::cuda

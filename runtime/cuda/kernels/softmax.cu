// Softmax over the last dimension, and its gradient: a block a row. A row is read twice, the second time from the
// cache.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/block_reduce.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"
#include "runtime/cuda/kernels/row_threads.h"

namespace tpc::cuda {
namespace {

// y may lie over x.
template <class T>
__global__ void __launch_bounds__(kMaxRowThreads) softmax(const T* x, T* y, int64_t length) {
  GPU_SHARED(float, warps, kMaxWarps);
  const T* from = x + blockIdx.x * length;
  T* to = y + blockIdx.x * length;
  // Of what this thread has seen: the largest, and the sum of exp(value - largest).
  float largest = -INFINITY;
  float sum = 0;
  for_each_pack_of_row(from, length, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    const auto values = load_pack<kSize>(from + i);
    const float before = largest;
#pragma unroll
    for (int j = 0; j < kSize; ++j) largest = fmaxf(largest, to_float(values.values[j]));
    sum *= expf(before - largest);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum += expf(to_float(values.values[j]) - largest);
  });
  const float row_largest = reduce_block(largest, warps, Maximum{});
  // A thread without elements has the sum 0, whatever its factor.
  sum = reduce_block(sum * expf(largest - row_largest), warps, Sum{});
  const float factor = 1.0f / sum;
  for_each_pack_of_row(from, length, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    auto values = load_pack<kSize>(from + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values.values[j] = from_float<T>(expf(to_float(values.values[j]) - row_largest) * factor);
    }
    store_pack(to + i, values);
  });
}

// dx may lie over dy.
template <class T>
__global__ void __launch_bounds__(kMaxRowThreads) softmax_grad(const T* dy, const T* y, T* dx, int64_t length) {
  GPU_SHARED(float, warps, kMaxWarps);
  const T* grads = dy + blockIdx.x * length;
  const T* row = y + blockIdx.x * length;
  T* to = dx + blockIdx.x * length;
  float dot = 0;
  for_each_pack_of_row(row, length, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    const auto a = load_pack<kSize>(grads + i);
    const auto b = load_pack<kSize>(row + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) dot += to_float(a.values[j]) * to_float(b.values[j]);
  });
  dot = reduce_block(dot, warps, Sum{});
  for_each_pack_of_row(row, length, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    auto a = load_pack<kSize>(grads + i);
    const auto b = load_pack<kSize>(row + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      a.values[j] = from_float<T>(to_float(b.values[j]) * (to_float(a.values[j]) - dot));
    }
    store_pack(to + i, a);
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_softmax(const LocalStep& step, DeviceQueue& queue) {
  const RowsOfBlocks rows(step.operands[0]);
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* x = data_of<T>(step.operands[0]);
    T* y = data_of<T>(step.results[0]);
    return make_kernel([=, &queue] { launch("softmax", softmax<T>, rows.shape(), queue, x, y, rows.length); });
  });
}

std::unique_ptr<Kernel> prepare_softmax_grad(const LocalStep& step, DeviceQueue& queue) {
  const RowsOfBlocks rows(step.operands[1]);
  return with_float_type(step.operands[1].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* dy = data_of<T>(step.operands[0]);
    const T* y = data_of<T>(step.operands[1]);
    T* dx = data_of<T>(step.results[0]);
    return make_kernel(
        [=, &queue] { launch("softmax_grad", softmax_grad<T>, rows.shape(), queue, dy, y, dx, rows.length); });
  });
}

}  // namespace tpc::cuda

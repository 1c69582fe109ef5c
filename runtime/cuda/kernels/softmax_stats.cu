// The pieces of a cross entropy whose vocabulary may be split: the sum of exponentials and the target's logit. A block
// a row, whose start is anywhere in memory: vocabularies are odd.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/block_reduce.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"
#include "runtime/cuda/kernels/row_threads.h"

namespace tpc::cuda {
namespace {

// What a rank holds of the vocabulary: entries [first, first + length).
template <class T>
__global__ void __launch_bounds__(kMaxRowThreads)
    softmax_stats(const T* logits, const int32_t* targets, const float* maxima, int64_t first, int64_t length,
                  float* sums, float* target_logits) {
  GPU_SHARED(float, warps, kMaxWarps);
  const T* row = logits + blockIdx.x * length;
  const float maximum = maxima[blockIdx.x];
  float sum = 0;
  for_each_pack_of_row(row, length, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    const auto values = load_pack<kSize>(row + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum += expf(to_float(values.values[j]) - maximum);
  });
  sum = reduce_block(sum, warps, Sum{});
  if (threadIdx.x == 0) {
    const int64_t target = targets[blockIdx.x] - first;
    sums[blockIdx.x] = sum;
    target_logits[blockIdx.x] = target >= 0 && target < length ? to_float(row[target]) - maximum : 0.0f;
  }
}

// The gradient may lie over the logits.
template <class T>
__global__ void __launch_bounds__(kMaxRowThreads)
    softmax_stats_grad(const T* logits, const int32_t* targets, const float* maxima, const float* dsums,
                       const float* dtarget_logits, int64_t first, int64_t length, T* dlogits) {
  const T* row = logits + blockIdx.x * length;
  T* grads = dlogits + blockIdx.x * length;
  const float maximum = maxima[blockIdx.x];
  const float dsum = dsums[blockIdx.x];
  const float dtarget_logit = dtarget_logits[blockIdx.x];
  const int64_t target = targets[blockIdx.x] - first;
  for_each_pack_of_row(row, length, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    auto values = load_pack<kSize>(row + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      float grad = expf(to_float(values.values[j]) - maximum) * dsum;
      if (i + j == target) grad += dtarget_logit;
      values.values[j] = from_float<T>(grad);
    }
    store_pack(grads + i, values);
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_softmax_stats(const LocalStep& step, DeviceQueue& queue) {
  const RowsOfBlocks rows(step.operands[0]);
  const int64_t first = step.operands[0].region.dims.back().begin;
  const int32_t* targets = step.operands[1].i32();
  const float* maxima = data_of<float>(step.operands[2]);
  float* sums = data_of<float>(step.results[0]);
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* logits = data_of<T>(step.operands[0]);
    return make_kernel([=, &queue] {
      launch("softmax_stats", softmax_stats<T>, rows.shape(), queue, logits, targets, maxima, first, rows.length, sums,
             sums + rows.rows);
    });
  });
}

std::unique_ptr<Kernel> prepare_softmax_stats_grad(const LocalStep& step, DeviceQueue& queue) {
  const RowsOfBlocks rows(step.operands[0]);
  const int64_t first = step.operands[0].region.dims.back().begin;
  const int32_t* targets = step.operands[1].i32();
  const float* maxima = data_of<float>(step.operands[2]);
  const float* dsums = data_of<float>(step.operands[3]);
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* logits = data_of<T>(step.operands[0]);
    T* dlogits = data_of<T>(step.results[0]);
    return make_kernel([=, &queue] {
      launch("softmax_stats_grad", softmax_stats_grad<T>, rows.shape(), queue, logits, targets, maxima, dsums,
             dsums + rows.rows, first, rows.length, dlogits);
    });
  });
}

}  // namespace tpc::cuda

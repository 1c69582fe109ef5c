// One step of AdamW for many parameters, in PyTorch's order of operations. The bias corrections change from step to
// step: every block computes them, in double, from the step's number in device memory.
#include "runtime/cuda/device_table.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"
#include "runtime/cuda/kernels/tensor_chunks.h"

namespace tpc::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Results may lie over operands.
struct AdamWTensor {
  const float* w;
  const float* g;
  const float* m;
  const float* v;
  const float* coefficient;  // nullptr: 1
  float* new_w;
  float* new_m;
  float* new_v;
  int64_t size;
  double lr;
  double beta1;
  double beta2;
  float decay;  // 1 - lr * weight decay
  float eps;
  bool packed;
};

struct AdamWFactors {
  float step_size;    // lr / (1 - beta1^t)
  float root_factor;  // 1 / sqrt(1 - beta2^t)
  float coefficient;
};

__device__ double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

__global__ void __launch_bounds__(kThreads)
    adamw_chunks(const AdamWTensor* tensors, const Chunk* chunks, const StepContext* context) {
  GPU_SHARED(AdamWFactors, shared_factors, 1);
  const Chunk chunk = chunks[blockIdx.x];
  const AdamWTensor tensor = tensors[chunk.tensor];
  if (threadIdx.x == 0) {
    const uint64_t t = context->step + 1;
    shared_factors[0].step_size = static_cast<float>(tensor.lr / (1.0 - power(tensor.beta1, t)));
    shared_factors[0].root_factor = static_cast<float>(1.0 / sqrt(1.0 - power(tensor.beta2, t)));
    shared_factors[0].coefficient = tensor.coefficient != nullptr ? *tensor.coefficient : 1.0f;
  }
  __syncthreads();
  const AdamWFactors factors = shared_factors[0];
  const float beta1 = static_cast<float>(tensor.beta1);
  const float beta2 = static_cast<float>(tensor.beta2);
  const float one_minus_beta1 = static_cast<float>(1.0 - tensor.beta1);
  const float one_minus_beta2 = static_cast<float>(1.0 - tensor.beta2);

  const int64_t begin = chunk.index * kChunkSize;
  const int64_t end = min(tensor.size, begin + kChunkSize);
  for_each_pack<4>(begin, end, tensor.packed, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    auto w = load_pack<kSize>(tensor.w + i);
    const auto g = load_pack<kSize>(tensor.g + i);
    auto m = load_pack<kSize>(tensor.m + i);
    auto v = load_pack<kSize>(tensor.v + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float grad = factors.coefficient * g.values[j];
      m.values[j] = beta1 * m.values[j] + one_minus_beta1 * grad;
      v.values[j] = beta2 * v.values[j] + one_minus_beta2 * grad * grad;
      const float denominator = sqrtf(v.values[j]) * factors.root_factor + tensor.eps;
      w.values[j] = tensor.decay * w.values[j] - factors.step_size * m.values[j] / denominator;
    }
    store_pack(tensor.new_w + i, w);
    store_pack(tensor.new_m + i, m);
    store_pack(tensor.new_v + i, v);
  });
}

AdamWTensor adamw_tensor(const LocalStep& step) {
  const bool has_coefficient = step.attributes.get_bool("has_coefficient");
  const double lr = step.attributes.get_double("lr");
  return {.w = data_of<float>(step.operands[0]),
          .g = data_of<float>(step.operands[1]),
          .m = data_of<float>(step.operands[2]),
          .v = data_of<float>(step.operands[3]),
          .coefficient = has_coefficient ? data_of<float>(step.operands[4]) : nullptr,
          .new_w = data_of<float>(step.results[0]),
          .new_m = data_of<float>(step.results[1]),
          .new_v = data_of<float>(step.results[2]),
          .size = step.results[0].region.num_elements(),
          .lr = lr,
          .beta1 = step.attributes.get_double("beta1"),
          .beta2 = step.attributes.get_double("beta2"),
          .decay = static_cast<float>(1.0 - lr * step.attributes.get_double("weight_decay")),
          .eps = static_cast<float>(step.attributes.get_double("eps")),
          .packed = are_packed(std::span(step.operands).first(4)) && are_packed(step.results)};
}

}  // namespace

std::unique_ptr<Kernel> prepare_adamw_group(std::span<const LocalStep> steps, DeviceQueue& queue) {
  std::vector<AdamWTensor> tensors;
  for (const LocalStep& step : steps) tensors.push_back(adamw_tensor(step));
  const std::vector<Chunk> chunks = chunks_of_results(steps);
  return make_kernel([&queue, count = static_cast<int64_t>(chunks.size()),
                      tensor_table = DeviceTable<AdamWTensor>(tensors, queue),
                      chunk_table = DeviceTable<Chunk>(chunks, queue)] {
    launch("adamw_chunks", adamw_chunks, {.blocks = count, .threads = gpu::block_threads(kThreads)}, queue,
           tensor_table.data(), chunk_table.data(), queue.context());
  });
}

}  // namespace tpc::cuda

// One step of stochastic gradient descent for many parameters, as in PyTorch: weight decay added to the gradient, no
// dampening, no Nesterov.
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
struct SgdTensor {
  const float* w;
  const float* g;
  const float* buffer;       // nullptr without momentum
  const float* coefficient;  // nullptr: 1
  float* new_w;
  float* new_buffer;
  int64_t size;
  float lr;
  float momentum;
  float weight_decay;
  bool packed;
};

__global__ void __launch_bounds__(kThreads) sgd_chunks(const SgdTensor* tensors, const Chunk* chunks) {
  const Chunk chunk = chunks[blockIdx.x];
  const SgdTensor tensor = tensors[chunk.tensor];
  const float coefficient = tensor.coefficient != nullptr ? *tensor.coefficient : 1.0f;
  const int64_t begin = chunk.index * kChunkSize;
  const int64_t end = min(tensor.size, begin + kChunkSize);
  for_each_pack<4>(begin, end, tensor.packed, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    auto w = load_pack<kSize>(tensor.w + i);
    auto change = load_pack<kSize>(tensor.g + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      change.values[j] = coefficient * change.values[j] + tensor.weight_decay * w.values[j];
    }
    if (tensor.buffer != nullptr) {
      const auto buffer = load_pack<kSize>(tensor.buffer + i);
#pragma unroll
      for (int j = 0; j < kSize; ++j) change.values[j] += tensor.momentum * buffer.values[j];
      store_pack(tensor.new_buffer + i, change);
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) w.values[j] -= tensor.lr * change.values[j];
    store_pack(tensor.new_w + i, w);
  });
}

SgdTensor sgd_tensor(const LocalStep& step) {
  const bool has_coefficient = step.attributes.get_bool("has_coefficient");
  const double momentum = step.attributes.get_double("momentum");
  const size_t num_tensors = momentum != 0 ? 3 : 2;
  return {.w = data_of<float>(step.operands[0]),
          .g = data_of<float>(step.operands[1]),
          .buffer = momentum != 0 ? data_of<float>(step.operands[2]) : nullptr,
          .coefficient = has_coefficient ? data_of<float>(step.operands.back()) : nullptr,
          .new_w = data_of<float>(step.results[0]),
          .new_buffer = momentum != 0 ? data_of<float>(step.results[1]) : nullptr,
          .size = step.results[0].region.num_elements(),
          .lr = static_cast<float>(step.attributes.get_double("lr")),
          .momentum = static_cast<float>(momentum),
          .weight_decay = static_cast<float>(step.attributes.get_double("weight_decay")),
          .packed = are_packed(std::span(step.operands).first(num_tensors)) && are_packed(step.results)};
}

}  // namespace

std::unique_ptr<Kernel> prepare_sgd_group(std::span<const LocalStep> steps, DeviceQueue& queue) {
  std::vector<SgdTensor> tensors;
  for (const LocalStep& step : steps) tensors.push_back(sgd_tensor(step));
  const std::vector<Chunk> chunks = chunks_of_results(steps);
  return make_kernel([&queue, count = static_cast<int64_t>(chunks.size()),
                      tensor_table = DeviceTable<SgdTensor>(tensors, queue),
                      chunk_table = DeviceTable<Chunk>(chunks, queue)] {
    launch("sgd_chunks", sgd_chunks, {.blocks = count, .threads = gpu::block_threads(kThreads)}, queue,
           tensor_table.data(), chunk_table.data());
  });
}

}  // namespace tpc::cuda

// Cross entropy from the softmax statistics, and the statistics' gradient. The sum over tokens is one block's, in
// double: there are some thousands of them.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/block_reduce.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"

namespace tpc::cuda {
namespace {

constexpr unsigned kThreads = 1024;
constexpr unsigned kGradThreads = 256;

__global__ void __launch_bounds__(kThreads)
    token_loss(const float* sums, const float* target_logits, const int32_t* targets, int64_t tokens,
               int64_t ignore_index, float* loss_sum, float* count) {
  GPU_SHARED(double, warps, kMaxWarps);
  double total = 0;
  double counted = 0;
  for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x) {
    if (targets[i] == ignore_index) continue;
    total += log(static_cast<double>(sums[i])) - static_cast<double>(target_logits[i]);
    counted += 1;
  }
  total = reduce_block(total, warps, Sum{});
  counted = reduce_block(counted, warps, Sum{});
  if (threadIdx.x == 0) {
    *loss_sum = static_cast<float>(total);
    *count = static_cast<float>(counted);
  }
}

// The gradient may lie over the statistics.
__global__ void __launch_bounds__(kGradThreads)
    token_loss_grad(const float* sums, const int32_t* targets, const float* dloss, int64_t tokens, int64_t ignore_index,
                    float* dsums, float* dtarget_logits) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= tokens) return;
  const bool is_counted = targets[i] != ignore_index;
  const float grad = *dloss;
  dsums[i] = is_counted ? grad / sums[i] : 0.0f;
  dtarget_logits[i] = is_counted ? -grad : 0.0f;
}

}  // namespace

std::unique_ptr<Kernel> prepare_token_loss(const LocalStep& step, DeviceQueue& queue) {
  const int64_t tokens = step.operands[1].region.num_elements();
  const int64_t ignore_index = step.attributes.get_int("ignore_index");
  const float* sums = data_of<float>(step.operands[0]);
  const int32_t* targets = step.operands[1].i32();
  float* loss_sum = data_of<float>(step.results[0]);
  float* count = data_of<float>(step.results[1]);
  return make_kernel([=, &queue] {
    launch("token_loss", token_loss, {.blocks = 1, .threads = gpu::block_threads(kThreads)}, queue, sums, sums + tokens,
           targets, tokens, ignore_index, loss_sum, count);
  });
}

std::unique_ptr<Kernel> prepare_token_loss_grad(const LocalStep& step, DeviceQueue& queue) {
  const int64_t tokens = step.operands[1].region.num_elements();
  const int64_t ignore_index = step.attributes.get_int("ignore_index");
  const float* sums = data_of<float>(step.operands[0]);
  const int32_t* targets = step.operands[1].i32();
  const float* dloss = data_of<float>(step.operands[2]);
  float* dsums = data_of<float>(step.results[0]);
  const unsigned threads = gpu::block_threads(kGradThreads);
  return make_kernel([=, &queue] {
    launch("token_loss_grad", token_loss_grad, {.blocks = ceil_div(tokens, threads), .threads = threads}, queue, sums,
           targets, dloss, tokens, ignore_index, dsums, dsums + tokens);
  });
}

}  // namespace tpc::cuda

// Kernels with a fault, one a name: `tpc_planted_faults NAME` runs one. What must be seen, and by whom, is in
// CMakeLists.txt. A fault that nobody sees ends in "not seen".
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/cuda/gpu.h"

namespace {

constexpr unsigned kThreads = 64;
constexpr unsigned kWarps = kThreads / 32;

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

enum class Barriers { kAll, kNoneBeforeRead, kNoneBeforeReuse };

// Two sums over a block through the same shared array.
template <Barriers kBarriers>
__global__ void sum_twice(float* y) {
  GPU_SHARED(float, warps, kWarps);
  float total = 0;
  for (int round = 1; round <= 2; ++round) {
    const float sum = warp_sum(static_cast<float>(round));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    if (kBarriers != Barriers::kNoneBeforeRead) __syncthreads();
    for (unsigned warp = 0; warp < kWarps; ++warp) total += warps[warp];
    if (kBarriers != Barriers::kNoneBeforeReuse) __syncthreads();
  }
  y[threadIdx.x] = total;
}

__global__ void shuffle_in_half_a_warp(float* y) {
  float sum = 1;
  if (threadIdx.x % 32 < 16) sum = warp_sum(sum);
  __syncthreads();
  y[threadIdx.x] = sum;
}

__global__ void barrier_after_return(float* y) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void shared_overrun(float* y) {
  GPU_SHARED(float, values, kThreads);
  GPU_SHARED(float, others, kThreads);
  float* next = values + threadIdx.x + 1;
  *next = 1;
  others[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = others[threadIdx.x];
}

__global__ void global_overrun(float* y) { y[threadIdx.x + 1] = 1; }

__global__ void misaligned_vector(float* y) {
  const float4 values = *reinterpret_cast<const float4*>(y + 1);
  y[0] = values.x;
}

__global__ void race_of_blocks(float* y) {
  if (threadIdx.x == 0) y[0] += 1;
}

void run(void (*kernel)(float*), unsigned blocks, const std::function<bool(const float*)>& is_right) {
  // The address sanitizer sees to what lies behind kThreads floats; else a guard does.
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t kSize = kThreads;
#else
  constexpr size_t kSize = kThreads + 1;
#endif
  const auto memory = std::make_unique<float[]>(kSize);
  const cudaError_t status = gpu::launch(kernel, dim3(blocks), dim3(kThreads), 0, nullptr, memory.get());
  if (status != cudaSuccess) {
    std::printf("refused: %d\n", static_cast<int>(status));
  } else if (kSize > kThreads && memory[kSize - 1] != 0) {
    std::puts("wrote behind the tensor");
  } else {
    std::puts(is_right(memory.get()) ? "not seen" : "wrong result");
  }
}

bool anything(const float*) { return true; }
bool twice_sums(const float* y) { return y[0] == 96 * kWarps && y[kThreads - 1] == 96 * kWarps; }

const std::map<std::string, std::function<void()>>& faults() {
  static const std::map<std::string, std::function<void()>> all = {
      {"none", [] { run(sum_twice<Barriers::kAll>, 1, twice_sums); }},
      {"no_barrier_before_read", [] { run(sum_twice<Barriers::kNoneBeforeRead>, 1, twice_sums); }},
      {"no_barrier_before_reuse", [] { run(sum_twice<Barriers::kNoneBeforeReuse>, 1, twice_sums); }},
      {"shuffle_in_half_a_warp", [] { run(shuffle_in_half_a_warp, 1, anything); }},
      {"barrier_after_return", [] { run(barrier_after_return, 1, anything); }},
      {"shared_overrun", [] { run(shared_overrun, 1, anything); }},
      {"global_overrun", [] { run(global_overrun, 1, anything); }},
      {"misaligned_vector", [] { run(misaligned_vector, 1, anything); }},
      {"race_of_blocks", [] { run(race_of_blocks, 2, anything); }},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const auto found = faults().find(argc == 2 ? argv[1] : "");
  if (found == faults().end()) {
    for (const auto& [name, fault] : faults()) std::puts(name.c_str());
    return 2;
  }
  try {
    found->second();
  } catch (const gpu::Error& error) {
    std::printf("emulation: %s\n", error.what());
  }
  return 0;
}

// The emulation gives CUDA's functions CUDA's meaning, and refuses what a device refuses. The faults that it finds are
// in planted_faults.cu.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/cuda/gpu.h"

namespace tpc::testing {
namespace {

class Seed {
 public:
  explicit Seed(uint64_t seed) : before_(gpu::config) { gpu::config.seed = seed; }
  ~Seed() { gpu::config = before_; }
  Seed(const Seed&) = delete;
  Seed& operator=(const Seed&) = delete;

 private:
  gpu::Config before_;
};

template <class Kernel, class... Arguments>
void run(Kernel kernel, unsigned blocks, unsigned threads, Arguments... arguments) {
  REQUIRE_EQ(gpu::launch(kernel, dim3(blocks), dim3(threads), 0, nullptr, arguments...), cudaSuccess);
}

__global__ void places(int* y) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  y[block * blockDim.x * blockDim.y * blockDim.z + thread] = static_cast<int>(100 * block + thread);
}

__global__ void warp_functions(int* y) {
  const unsigned all = 0xffffffff;
  const int lane = static_cast<int>(threadIdx.x % 32);
  bool right = __shfl_sync(all, lane, 5) == 5;
  right = right && __shfl_sync(all, lane, 5, 8) == lane / 8 * 8 + 5;
  right = right && __shfl_xor_sync(all, lane, 3) == (lane ^ 3);
  right = right && __shfl_down_sync(all, lane, 30) == (lane < 2 ? lane + 30 : lane);
  right = right && __shfl_up_sync(all, lane, 1, 16) == (lane % 16 == 0 ? lane : lane - 1);
  right = right && __ballot_sync(all, lane < 3 ? 1 : 0) == 7;
  right = right && __any_sync(all, lane == 9 ? 1 : 0) == 1 && __all_sync(all, lane != 9 ? 1 : 0) == 0;
  right = right && __match_any_sync(all, lane / 8) == 0xffu << (lane / 8 * 8);
  right = right && __reduce_add_sync(all, lane) == 496 && __reduce_max_sync(all, lane) == 31;
  // Lanes of different masks do not wait for each other.
  if (lane < 8) right = right && __reduce_add_sync(0xffu, 1) == 8;
  __syncwarp();
  y[threadIdx.x] = right ? 1 : 0;
}

__global__ void votes(int* y) {
  const int first = threadIdx.x < 10 ? 1 : 0;
  const int count = __syncthreads_count(first);
  const int any = __syncthreads_or(first);
  const int all = __syncthreads_and(first);
  y[threadIdx.x] = count * 100 + any * 10 + all;
}

__global__ void atomics(int* counter, float* sum) {
  atomicAdd(counter, 1);
  atomicMax(counter + 1, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x));
  atomicCAS(counter + 2, 0, 7);
  atomicAdd(sum, 0.5f);
}

// The last block that comes adds up what the others left.
__global__ void last_block_sums(float* parts, unsigned* arrived, float* sum) {
  GPU_SHARED(unsigned, position, 1);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = static_cast<float>(blockIdx.x + 1);
    __threadfence();
    position[0] = atomicAdd(arrived, 1);
    __threadfence();
  }
  __syncthreads();
  if (position[0] + 1 < gridDim.x || threadIdx.x != 0) return;
  float total = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) total += parts[i];
  *sum = total;
}

template <class T>
__global__ void reverse(T* y, int n) {
  GPU_SHARED_DYN(T, values);
  const int i = static_cast<int>(threadIdx.x);
  values[i] = static_cast<T>(i);
  __syncthreads();
  y[i] = values[n - 1 - i];
}

__global__ void undefined_shared(int* y) {
  GPU_SHARED(float, values, 32);
  y[threadIdx.x] = values[threadIdx.x] == values[threadIdx.x] ? 1 : 0;
}

}  // namespace

TEST_CASE("emulation: threads and blocks have their places, in any order") {
  for (uint64_t seed : {0, 1, 2}) {
    const Seed scope(seed);
    std::vector<int> y(6 * 24, -1);
    REQUIRE_EQ(gpu::launch(places, dim3(3, 2), dim3(2, 3, 4), 0, nullptr, y.data()), cudaSuccess);
    for (int i = 0; i < 6 * 24; ++i) CHECK_EQ(y[static_cast<size_t>(i)], 100 * (i / 24) + i % 24);
  }
}

TEST_CASE("emulation: warp intrinsics and votes") {
  for (uint64_t seed : {0, 1, 2}) {
    const Seed scope(seed);
    std::vector<int> y(64, 0);
    run(warp_functions, 1, 64, y.data());
    CHECK_EQ(y, std::vector<int>(64, 1));
    run(votes, 1, 64, y.data());
    CHECK_EQ(y, std::vector<int>(64, 1010));
  }
}

TEST_CASE("emulation: atomics, and fences between blocks") {
  std::vector<int> counter(3, 0);
  float sum = 0;
  run(atomics, 4, 32, counter.data(), &sum);
  CHECK_EQ(counter, std::vector<int>{128, 127, 7});
  CHECK_EQ(sum, 64.0f);

  std::vector<float> parts(5, 0);
  unsigned arrived = 0;
  run(last_block_sums, 5, 32, parts.data(), &arrived, &sum);
  CHECK_EQ(sum, 15.0f);
}

TEST_CASE("emulation: large grids run on several threads") {
  std::vector<int> counter(3, 0);
  float sum = 0;
  run(atomics, 600, 32, counter.data(), &sum);
  CHECK_EQ(counter[0], 600 * 32);
  CHECK_EQ(sum, 9600.0f);
}

TEST_CASE("emulation: shared memory starts undefined") {
  std::vector<int> y(32, 1);
  run(undefined_shared, 1, 32, y.data());
  CHECK_EQ(y, std::vector<int>(32, 0));
}

TEST_CASE("emulation: more than 48 KiB of shared memory is to be asked for") {
  std::vector<float> y(32);
  const auto launch = [&](size_t bytes) {
    return gpu::launch(reverse<float>, dim3(1), dim3(32), bytes, nullptr, y.data(), 32);
  };
  CHECK_EQ(launch(60 << 10), cudaErrorInvalidValue);
  CHECK_EQ(gpu::allow_shared(reverse<float>, 60 << 10), cudaSuccess);
  CHECK_EQ(launch(60 << 10), cudaSuccess);
  CHECK_EQ(y[0], 31.0f);
  CHECK_EQ(launch(61 << 10), cudaErrorInvalidValue);
  // Of another instance nobody asked.
  CHECK_EQ(gpu::launch(reverse<int>, dim3(1), dim3(32), 60 << 10, nullptr, std::vector<int>(32).data(), 32),
           cudaErrorInvalidValue);
  CHECK_EQ(gpu::allow_shared(reverse<float>, 228 << 10), cudaErrorInvalidValue);
}

TEST_CASE("emulation: launches that a device refuses") {
  int y = 0;
  const auto launch = [&](dim3 grid, dim3 block) { return gpu::launch(votes, grid, block, 0, nullptr, &y); };
  CHECK_EQ(launch(dim3(0), dim3(32)), cudaErrorInvalidConfiguration);
  CHECK_EQ(launch(dim3(1, 65536), dim3(32)), cudaErrorInvalidConfiguration);
  CHECK_EQ(launch(dim3(1), dim3(1025)), cudaErrorInvalidConfiguration);
  CHECK_EQ(launch(dim3(1), dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
}

TEST_CASE("emulation: launches can be queued") {
  static std::vector<std::function<void()>> queue;
  const gpu::Enqueue before = std::exchange(gpu::enqueue, [](cudaStream_t, std::function<void()> work) {
    queue.push_back(std::move(work));
    return cudaSuccess;
  });
  std::vector<int> y(64, 0);
  run(votes, 1, 64, y.data());
  gpu::enqueue = before;
  CHECK_EQ(y[0], 0);
  for (const auto& work : queue) work();
  CHECK_EQ(y, std::vector<int>(64, 1010));
}

}  // namespace tpc::testing

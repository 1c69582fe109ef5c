// Grids of blocks, and what the device checks when a kernel is launched.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/block_runner.h"
#include "tests/emulation/gpu_emulation.h"
#include "tests/emulation/sanitizers.h"

namespace gpu {
namespace {

// Of sm_90.
constexpr size_t kSharedBytes = size_t{48} << 10;
constexpr size_t kMaxSharedBytes = size_t{227} << 10;
constexpr unsigned kMaxThreads = 1024;
// A second OS thread costs more than fewer CUDA threads than this.
constexpr uint64_t kMinThreadsShared = 1 << 14;

std::mutex allowed_mutex;

std::map<const void*, size_t>& allowed_shared() {
  static std::map<const void*, size_t> allowed;
  return allowed;
}

// The next block is taken by whichever OS thread is free.
struct Grid {
  dim3 size;
  dim3 block;
  size_t shared_bytes = 0;
  const std::function<void()>* thread_body = nullptr;
  std::vector<uint32_t> order;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;

  void run_blocks(uint64_t seed) {
    static thread_local BlockRunner runner;
    runner.begin_grid(thread_body, seed);
    try {
      for (size_t i = next++; i < order.size(); i = next++) {
        const uint32_t index = order[i];
        runner.run({index % size.x, index / size.x % size.y, index / (size.x * size.y)}, block, size, shared_bytes);
      }
    } catch (...) {
      next = order.size();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
    runner.end_grid();
  }
};

cudaError_t run_at_once(cudaStream_t /*stream*/, std::function<void()> work) {
  work();
  return cudaSuccess;
}

}  // namespace

Config config;
constinit Enqueue enqueue = run_at_once;

cudaError_t check_launch(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes) {
  constexpr unsigned kMaxGridYZ = 65535;
  constexpr unsigned kMaxGridX = 0x7fffffff;
  const uint64_t num_threads = uint64_t{block.x} * block.y * block.z;
  const bool is_grid =
      grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= kMaxGridX && grid.y <= kMaxGridYZ && grid.z <= kMaxGridYZ;
  if (!is_grid || num_threads == 0 || num_threads > kMaxThreads || block.z > 64) return cudaErrorInvalidConfiguration;
  if (shared_bytes <= kSharedBytes) return cudaSuccess;
  const std::lock_guard lock(allowed_mutex);
  const auto found = allowed_shared().find(kernel);
  return found != allowed_shared().end() && shared_bytes <= found->second ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t set_allowed_shared(const void* kernel, size_t bytes) {
  if (bytes > kMaxSharedBytes) return cudaErrorInvalidValue;
  const std::lock_guard lock(allowed_mutex);
  allowed_shared()[kernel] = bytes;
  return cudaSuccess;
}

void run_grid(const void* /*kernel*/, dim3 grid, dim3 block, size_t shared_bytes,
              const std::function<void()>& thread_body) {
  Grid work;
  work.size = grid;
  work.block = block;
  work.shared_bytes = shared_bytes;
  work.thread_body = &thread_body;
  work.order.resize(size_t{grid.x} * grid.y * grid.z);
  std::iota(work.order.begin(), work.order.end(), 0u);
  if (config.seed != 0) std::shuffle(work.order.begin(), work.order.end(), std::mt19937_64(config.seed));

  const uint64_t num_threads = work.order.size() * uint64_t{block.x} * block.y * block.z;
  std::vector<std::thread> others;
  if (!kThreadSanitizer && num_threads >= kMinThreadsShared) {
    for (unsigned i = 1; i < std::min<size_t>(config.os_threads, work.order.size()); ++i) {
      others.emplace_back([&work, i] { work.run_blocks(config.seed + i); });
    }
  }
  work.run_blocks(config.seed);
  for (std::thread& other : others) other.join();
  if (work.failure) std::rethrow_exception(work.failure);
}

void* static_shared(const void* key, size_t bytes) {
  void* array = BlockRunner::running().shared().array(key, bytes);
  if (array == nullptr) fail("a kernel's shared arrays are more than 48 KiB, or more than 64");
  return array;
}

void* dynamic_shared() { return BlockRunner::running().shared().dynamic(); }

BarrierVotes barrier(bool vote) { return BlockRunner::running().barrier(vote); }

void fence() { BlockRunner::running().fence(); }

void fail(const char* message) { BlockRunner::running().fail(message); }

WarpValue warp_op(WarpOp op, unsigned mask, WarpValue value, unsigned source, Combine combine) {
  return BlockRunner::running().warp_op(op, mask, value, source, combine);
}

}  // namespace gpu

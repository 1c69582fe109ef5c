/// CUDA kernels as functions of this machine: every CUDA thread is a fiber, the threads of a block take turns on one OS
/// thread. What is wrong in every run is an Error here (deadlock, a shuffle from a lane that is not there, more shared
/// memory than was asked for); under the sanitizers overruns, misaligned vectors, missing barriers and races are
/// theirs.
///
/// Not here, so that using it does not compile: <<<>>>, __shared__ (GPU_SHARED), __cluster_dims__, cooperative groups
/// and launches, tensor cores, asynchronous copies.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#undef __cluster_dims__
#undef __constant__
#undef __device__
#undef __forceinline__
#undef __global__
#undef __grid_constant__
#undef __host__
#undef __launch_bounds__
#undef __noinline__
#undef __shared__
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __host__
#define __launch_bounds__(...)

#define threadIdx (::gpu::current_thread->thread_index)
#define blockIdx (::gpu::current_thread->block_index)
#define blockDim (::gpu::current_thread->block_size)
#define gridDim (::gpu::current_thread->grid_size)

// The key is one per instance of a template, as the array is.
#define GPU_SHARED(T, name, n)       \
  static const char name##_key_ = 0; \
  T(&name)[n] = *static_cast<T(*)[n]>(::gpu::static_shared(&name##_key_, sizeof(T) * (n)))
#define GPU_SHARED_DYN(T, name) T* name = static_cast<T*>(::gpu::dynamic_shared())

inline constexpr int warpSize = 32;

namespace gpu {

/// A kernel that is wrong; the message ends with block and thread where one is to blame.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How kernels are run from now on. Set between launches.
struct Config {
  /// 0: lanes and blocks in order; else warps, lanes and blocks in a random order between points of synchronisation.
  uint64_t seed = 0;
  /// Of block_threads(); a multiple of 32.
  unsigned max_block_threads = 1024;
  /// Large grids run on so many OS threads; always 1 under the thread sanitizer.
  unsigned os_threads = 2;
};
extern Config config;

/// What a CUDA thread sees of itself.
struct ThreadPlace {
  uint3 thread_index{};
  uint3 block_index{};
  dim3 block_size;
  dim3 grid_size;
  unsigned lane = 0;
  unsigned warp = 0;
};
extern thread_local const ThreadPlace* current_thread;

/// Runs or queues the work of a launch; what it returns is the launch's status. A fake CUDA runtime sets its own, which
/// puts the work on the stream's queue; at first work runs at once.
using Enqueue = cudaError_t (*)(cudaStream_t stream, std::function<void()> work);
extern Enqueue enqueue;

// For the macros and functions of the kernels, inside a running kernel only.

void* static_shared(const void* key, size_t bytes);
void* dynamic_shared();

struct BarrierVotes {
  unsigned ayes = 0;
  unsigned threads = 0;
};
/// The block's barrier: returns how many threads said yes.
BarrierVotes barrier(bool vote);
/// Orders this thread's memory against that of every other thread that calls it (for the thread sanitizer).
void fence();
[[noreturn]] void fail(const char* message);

enum class WarpOp : uint8_t { kSync, kShuffle, kBallot, kMatch, kReduce };
/// What a lane gives to, and gets from, a warp intrinsic.
struct WarpValue {
  uint64_t words[2] = {0, 0};
  bool operator==(const WarpValue&) const = default;
};
using Combine = WarpValue (*)(WarpValue, WarpValue);
/// Waits for the lanes of the mask. kShuffle: the value of lane `source`; kBallot: the lanes that gave non-zero;
/// kMatch: the lanes that gave the same; kReduce: all values combined, in order of lanes.
WarpValue warp_op(WarpOp op, unsigned mask, WarpValue value, unsigned source = 0, Combine combine = nullptr);

template <class T>
WarpValue to_warp_value(T value) {
  static_assert(sizeof(T) <= sizeof(WarpValue) && std::is_trivially_copyable_v<T>);
  WarpValue words;
  // memcpy would be the sanitizer's, which a fiber may not enter.
  __builtin_memcpy(words.words, &value, sizeof(T));
  return words;
}
template <class T>
T from_warp_value(const WarpValue& words) {
  T value;
  __builtin_memcpy(&value, words.words, sizeof(T));
  return value;
}

// For launches.

cudaError_t check_launch(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes);
void run_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread_body);
cudaError_t set_allowed_shared(const void* kernel, size_t bytes);

// What gpu.h promises.

inline unsigned block_threads(unsigned wanted) {
  return wanted < config.max_block_threads ? wanted : config.max_block_threads;
}

template <class... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  return set_allowed_shared(reinterpret_cast<const void*>(kernel), bytes);
}

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   const Arguments&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "a kernel takes 4 KiB of parameters");
  const void* key = reinterpret_cast<const void*>(kernel);
  if (const cudaError_t status = check_launch(key, grid, block, shared_bytes); status != cudaSuccess) return status;
  std::function<void()> thread_body = [kernel,
                                       values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    std::apply(kernel, values);
  };
  return enqueue(stream, [=] { run_grid(key, grid, block, shared_bytes, thread_body); });
}

}  // namespace gpu

#include "tests/emulation/device_functions.h"

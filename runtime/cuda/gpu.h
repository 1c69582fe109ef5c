/// One source for a kernel, two compilers. nvcc makes the real kernel of it; any other compiler makes a program that
/// runs it on the CPU (tests/emulation). What a .cu may not write by CUDA's own means, since no other compiler can
/// parse or follow it, stands here: launches and shared memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>

#if defined(__CUDACC__)

/// n elements of T that the threads of a block share; n is a constant. Starts undefined.
#define GPU_SHARED(T, name, n) __shared__ T name[n]
/// `T* name`: the bytes of shared memory that the launch asks for. 16-byte aligned; one in a kernel.
#define GPU_SHARED_DYN(T, name)                                      \
  extern __shared__ __align__(16) unsigned char gpu_shared_bytes_[]; \
  T* name = reinterpret_cast<T*>(gpu_shared_bytes_)

namespace gpu {

/// Threads of a block for a kernel that is right with any multiple of 32 up to `wanted`: the emulation may ask for
/// fewer, since each costs it time.
constexpr unsigned block_threads(unsigned wanted) { return wanted; }

/// Lets launches of `kernel` ask for up to `bytes` of shared memory; needed above 48 KiB in all.
template <class... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// Puts kernel(arguments...) on the stream, with `shared_bytes` of dynamic shared memory. An empty grid is an error.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace gpu

#else

#include "tests/emulation/gpu_emulation.h"

#endif

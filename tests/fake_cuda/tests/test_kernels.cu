#include "tests/fake_cuda/tests/test_kernels.h"

#include "runtime/cuda/gpu.h"

namespace fake_cuda::testing {
namespace {

constexpr unsigned kThreads = 32;

__global__ void add_scaled_kernel(float* y, const float* x, float a, int n) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] += a * x[i];
}

__global__ void squared_loss_kernel(const float* y, const float* target, float* dy, float* loss, int n) {
  GPU_SHARED(float, sums, kThreads);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    float difference = y[i] - target[i];
    dy[i] = 2 * difference / static_cast<float>(n);
    sum += difference * difference;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += sums[i];
    *loss = sum / static_cast<float>(n);
  }
}

__global__ void overrun_kernel(float* y, int n) { y[n] = 1; }

}  // namespace

cudaError_t add_scaled(float* y, const float* x, float a, int n, cudaStream_t stream) {
  dim3 grid((static_cast<unsigned>(n) + kThreads - 1) / kThreads);
  return gpu::launch(add_scaled_kernel, grid, dim3(kThreads), 0, stream, y, x, a, n);
}

cudaError_t squared_loss(const float* y, const float* target, float* dy, float* loss, int n, cudaStream_t stream) {
  return gpu::launch(squared_loss_kernel, dim3(1), dim3(kThreads), 0, stream, y, target, dy, loss, n);
}

cudaError_t overrun(float* y, int n, cudaStream_t stream) {
  return gpu::launch(overrun_kernel, dim3(1), dim3(1), 0, stream, y, n);
}

}  // namespace fake_cuda::testing

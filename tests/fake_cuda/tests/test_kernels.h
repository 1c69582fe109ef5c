/// Kernels for the tests of the fake.
#pragma once

#include <cuda_runtime.h>

namespace fake_cuda::testing {

/// y[i] += a * x[i]
cudaError_t add_scaled(float* y, const float* x, float a, int n, cudaStream_t stream);
/// dy = 2 (y - target) / n, *loss = mean squared difference
cudaError_t squared_loss(const float* y, const float* target, float* dy, float* loss, int n, cudaStream_t stream);
/// Writes one element behind `n`.
cudaError_t overrun(float* y, int n, cudaStream_t stream);

}  // namespace fake_cuda::testing

/// What every function of the CUDA runtime does before and after its own: the driver's state, a lost device, planted
/// failures, the last error.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "tests/fake_cuda/failures.h"
#include "tests/fake_cuda/machine.h"

namespace fake_cuda {

/// Success, or why no function of this process can work.
cudaError_t driver_error();

/// The error to return without running the call; `usual` is that of a planted failure that names none.
cudaError_t before_call(const char* call, cudaError_t usual);
/// Remembers the error as this thread's last one, and returns it.
cudaError_t after_call(cudaError_t error);

template <class Body>
cudaError_t run_call(const char* call, Body body, cudaError_t usual = cudaErrorUnknown) {
  cudaError_t error = before_call(call, usual);
  return after_call(error == cudaSuccess ? body() : error);
}

/// The device of this thread.
Device& this_device();

}  // namespace fake_cuda

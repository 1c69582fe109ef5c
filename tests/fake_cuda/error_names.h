/// Names and sentences of errors.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <span>

namespace fake_cuda {

struct CudaErrorName {
  cudaError_t error;
  const char* name;
  const char* sentence;
  bool sticky;  ///< the device is lost: every later call fails with it
};

struct NcclErrorName {
  ncclResult_t error;
  const char* name;
  const char* sentence;
};

std::span<const CudaErrorName> cuda_error_names();
std::span<const NcclErrorName> nccl_error_names();

}  // namespace fake_cuda

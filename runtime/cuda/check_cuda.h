/// Every call of the CUDA libraries goes through here: what fails becomes a DeviceError that names the call. Who runs a
/// step adds rank, training step and node.
#pragma once

#include <cuda_runtime.h>

namespace tpc::cuda {

/// `call` as it stands in the source: "cudaMalloc(&data, bytes)".
void check_cuda(cudaError_t status, const char* call);

}  // namespace tpc::cuda

#define TPC_CUDA(call) ::tpc::cuda::check_cuda((call), #call)

#include "runtime/cuda/symmetric_memory.h"

#include <nccl.h>

#include <algorithm>

#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/check_nccl.h"
#include "runtime/cuda/device_memory.h"

namespace tpc::cuda {

SymmetricMemory::SymmetricMemory(int64_t bytes, cudaStream_t stream) {
  auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  ncclResult_t status = ncclMemAlloc(&data_, size);
  // Of what was the matter NCCL says only that it was the device.
  if (status == ncclUnhandledCudaError) require_memory(cudaGetLastError(), bytes);
  check_nccl(status, "ncclMemAlloc", nullptr);
  try {
    TPC_CUDA(cudaMemsetAsync(data_, 0, size, stream));
    TPC_CUDA(cudaStreamSynchronize(stream));
  } catch (...) {
    static_cast<void>(ncclMemFree(data_));
    throw;
  }
}

// What fails here has failed before.
SymmetricMemory::~SymmetricMemory() { static_cast<void>(ncclMemFree(data_)); }

}  // namespace tpc::cuda

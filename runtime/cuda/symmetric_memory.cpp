#include "runtime/cuda/symmetric_memory.h"

#include <nccl.h>

#include "runtime/cuda/check_nccl.h"

namespace tpc::cuda {
namespace {

void* take_symmetric(size_t bytes) {
  void* data = nullptr;
  ncclResult_t status = ncclMemAlloc(&data, bytes);
  // Of what was the matter NCCL says only that it was the device.
  if (status == ncclUnhandledCudaError) require_memory(cudaGetLastError(), static_cast<int64_t>(bytes));
  check_nccl(status, "ncclMemAlloc", nullptr);
  return data;
}

void release(void* data) { static_cast<void>(ncclMemFree(data)); }

}  // namespace

const MemorySource kSymmetricMemory = {take_symmetric, release};

}  // namespace tpc::cuda

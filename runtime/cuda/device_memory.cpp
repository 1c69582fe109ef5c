#include "runtime/cuda/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/core/check.h"
#include "compiler/plan/text_table.h"
#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {
namespace {

void* take_device(size_t bytes) {
  void* data = nullptr;
  cudaError_t status = cudaMalloc(&data, bytes);
  require_memory(status, static_cast<int64_t>(bytes));
  check_cuda(status, "cudaMalloc");
  return data;
}

void* take_managed(size_t bytes) {
  void* data = nullptr;
  cudaError_t status = cudaMallocManaged(&data, bytes, cudaMemAttachGlobal);
  require_memory(status, static_cast<int64_t>(bytes));
  check_cuda(status, "cudaMallocManaged");
  return data;
}

void release(void* data) { static_cast<void>(cudaFree(data)); }

}  // namespace

const MemorySource kDeviceMemory = {take_device, release};
const MemorySource kManagedMemory = {take_managed, release};

void require_memory(cudaError_t status, int64_t bytes) {
  if (status != cudaErrorMemoryAllocation) return;
  // Else the next call would tell of it again.
  static_cast<void>(cudaGetLastError());
  size_t free = 0;
  size_t total = 0;
  TPC_CUDA(cudaMemGetInfo(&free, &total));
  throw DeviceError(
      fmt::format("out of device memory: {} more are wanted, {} of the GPU's {} are free. A larger tp or dp with ZeRO, "
                  "a smaller batch or bf16 need less: see `tpc report`",
                  bytes_text(bytes), bytes_text(static_cast<int64_t>(free)), bytes_text(static_cast<int64_t>(total))));
}

CudaMemory::CudaMemory(int64_t bytes, const MemorySource& source, cudaStream_t stream) : source_(source) {
  auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  data_ = source.take(size);
  try {
    TPC_CUDA(cudaMemsetAsync(data_, 0, size, stream));
    TPC_CUDA(cudaStreamSynchronize(stream));
  } catch (...) {
    source.release(data_);
    throw;
  }
}

PinnedMemory::PinnedMemory(int64_t bytes) {
  TPC_CUDA(cudaMallocHost(&data_, static_cast<size_t>(std::max<int64_t>(bytes, 1))));
}

PinnedMemory::~PinnedMemory() { static_cast<void>(cudaFreeHost(data_)); }

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

}  // namespace tpc::cuda

#include "runtime/cuda/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/core/check.h"
#include "compiler/plan/text_table.h"
#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {
namespace {

void* take(size_t bytes, MemoryKind kind) {
  void* data = nullptr;
  bool is_managed = kind == MemoryKind::kManaged;
  cudaError_t status = is_managed ? cudaMallocManaged(&data, bytes, cudaMemAttachGlobal) : cudaMalloc(&data, bytes);
  require_memory(status, static_cast<int64_t>(bytes));
  check_cuda(status, is_managed ? "cudaMallocManaged" : "cudaMalloc");
  return data;
}

}  // namespace

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

CudaMemory::CudaMemory(int64_t bytes, MemoryKind kind, cudaStream_t stream) {
  auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  data_ = take(size, kind);
  try {
    TPC_CUDA(cudaMemsetAsync(data_, 0, size, stream));
    TPC_CUDA(cudaStreamSynchronize(stream));
  } catch (...) {
    static_cast<void>(cudaFree(data_));
    throw;
  }
}

// What fails here has failed before.
CudaMemory::~CudaMemory() { static_cast<void>(cudaFree(data_)); }

PinnedMemory::PinnedMemory(int64_t bytes) {
  TPC_CUDA(cudaMallocHost(&data_, static_cast<size_t>(std::max<int64_t>(bytes, 1))));
}

PinnedMemory::~PinnedMemory() { static_cast<void>(cudaFreeHost(data_)); }

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

}  // namespace tpc::cuda

#include "runtime/cuda/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/check_nccl.h"

namespace tpc::cuda {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

[[noreturn]] void throw_not_enough(int64_t bytes) {
  size_t free = 0;
  size_t total = 0;
  TPC_CUDA(cudaMemGetInfo(&free, &total));
  throw DeviceError(fmt::format(
      "a rank needs {:.2f} GiB of device memory; {:.2f} of the GPU's {:.2f} GiB are free. A larger tp or dp with ZeRO, "
      "a smaller batch or bf16 need less: see `tpc report`",
      static_cast<double>(bytes) / kGiB, static_cast<double>(free) / kGiB, static_cast<double>(total) / kGiB));
}

}  // namespace

CudaMemory::CudaMemory(int64_t bytes, MemoryKind kind, cudaStream_t stream) : kind_(kind) {
  auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  cudaError_t status = cudaSuccess;
  switch (kind) {
    case MemoryKind::kDevice:
      status = cudaMalloc(&data_, size);
      break;
    case MemoryKind::kManaged:
      status = cudaMallocManaged(&data_, size, cudaMemAttachGlobal);
      break;
    case MemoryKind::kSymmetric:
      TPC_NCCL(ncclMemAlloc(&data_, size));
      break;
  }
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw_not_enough(bytes);
  }
  check_cuda(status, "cudaMalloc");
  TPC_CUDA(cudaMemsetAsync(data_, 0, size, stream));
  TPC_CUDA(cudaStreamSynchronize(stream));
}

CudaMemory::~CudaMemory() {
  // What fails here has failed before.
  if (kind_ == MemoryKind::kSymmetric) {
    static_cast<void>(ncclMemFree(data_));
  } else {
    static_cast<void>(cudaFree(data_));
  }
}

PinnedMemory::PinnedMemory(int64_t bytes) {
  TPC_CUDA(cudaMallocHost(&data_, static_cast<size_t>(std::max<int64_t>(bytes, 1))));
}

PinnedMemory::~PinnedMemory() { static_cast<void>(cudaFreeHost(data_)); }

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

}  // namespace tpc::cuda

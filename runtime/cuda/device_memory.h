/// Memory of the device, and of the host where the device may write it, as owners.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "runtime/backend.h"

namespace tpc::cuda {

/// Throws DeviceError when `bytes` could not be had: says how much is free, and what would need less.
void require_memory(cudaError_t status, int64_t bytes);

/// How a rank's memory is made.
enum class MemoryKind : uint8_t {
  kDevice,
  kManaged,  ///< the host may look at it while nothing runs
};

/// `bytes` of zeroed memory of the current device, at least 256-byte aligned. The constructor waits for the zeroing.
/// Throws DeviceError.
class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(int64_t bytes, MemoryKind kind, cudaStream_t stream);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  std::byte* data() const override { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// Pinned memory of the host.
class PinnedMemory {
 public:
  explicit PinnedMemory(int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace tpc::cuda

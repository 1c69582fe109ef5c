/// Memory of the device, and of the host where the device may write it, as owners.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "runtime/backend.h"

namespace tpc::cuda {

/// Throws DeviceError when `bytes` could not be had: says how much is free, and what would need less.
void require_memory(cudaError_t status, int64_t bytes);

/// Where memory of the current device comes from.
struct MemorySource {
  void* (*take)(size_t bytes);    ///< at least 256-byte aligned; throws DeviceError
  void (*release)(void* memory);  ///< what fails here has failed before
};

extern const MemorySource kDeviceMemory;
/// The host may look at it while nothing runs.
extern const MemorySource kManagedMemory;

/// `bytes` of zeroed memory. The constructor waits for the zeroing. Throws DeviceError.
class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(int64_t bytes, const MemorySource& source, cudaStream_t stream);
  ~CudaMemory() override { source_.release(data_); }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  std::byte* data() const override { return static_cast<std::byte*>(data_); }

 private:
  const MemorySource& source_;
  void* data_;
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

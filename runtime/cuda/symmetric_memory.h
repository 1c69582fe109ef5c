/// Memory of a device that peers may write into.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "runtime/backend.h"

namespace tpc::cuda {

/// `bytes` of zeroed memory of the current device that NCCL gives out, for windows (see NcclOptions). The constructor
/// waits for the zeroing. Throws DeviceError.
class SymmetricMemory final : public DeviceMemory {
 public:
  SymmetricMemory(int64_t bytes, cudaStream_t stream);
  ~SymmetricMemory() override;
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;

  std::byte* data() const override { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace tpc::cuda

/// The memory of one rank, in ordinary memory.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/backend.h"

namespace tpc {

/// `bytes` of zeroed memory, 64-byte aligned; large ones on huge pages where the system has them. Zeroing touches every
/// page, so the memory lies near the core of the thread that makes the arena. Throws DeviceError when there is not
/// enough.
class Arena final : public DeviceMemory {
 public:
  explicit Arena(int64_t bytes);

  std::byte* data() const override { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  int64_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

/// Bytes of physical memory of this machine.
int64_t physical_memory();

}  // namespace tpc

/// The memory of one device. Host code cannot touch it: pages are open only while work of the device runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace fake_cuda {

struct Allocation {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::byte* pages = nullptr;  ///< the pages that hold it; a page that is never open follows
  uint64_t page_bytes = 0;
  int number = 0;       ///< from 1, in the order of allocation
  std::string made_by;  ///< the call
  bool live = true;

  /// Host code may touch it, too.
  bool is_managed() const { return made_by == "cudaMallocManaged"; }
};

/// Addresses are never used twice, so that a use after the release is one. Not thread-safe: guarded by the machine.
class DeviceMemory {
 public:
  DeviceMemory(int device, uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Full of NaN. Data end at the last address with the alignment that they fit at (256 bytes: no more than a GPU
  /// promises). Throws nothing; nullptr when the device is full.
  Allocation* allocate(uint64_t bytes, uint64_t alignment, std::string made_by);
  /// Pages stay closed for good. Dies when bytes beside the allocation were written.
  void release(Allocation& allocation);

  /// Pages are open from the first open() to the last close().
  void open();
  void close();
  bool is_open() const { return opened_ > 0; }

  bool contains(const void* address) const;
  /// The allocation, live or not, in whose pages (or the page after them) the address lies; nullptr where none was.
  Allocation* find(const void* address);

  uint64_t used() const { return used_; }
  uint64_t capacity() const { return capacity_; }
  const std::map<const std::byte*, Allocation>& allocations() const { return allocations_; }
  int device() const { return device_; }

 private:
  void protect(const Allocation& allocation, int protection);

  int device_;
  uint64_t capacity_;
  std::byte* base_ = nullptr;
  uint64_t reserved_ = 0;
  uint64_t next_ = 0;
  uint64_t used_ = 0;
  int opened_ = 0;
  std::map<const std::byte*, Allocation> allocations_;  // by first page
};

}  // namespace fake_cuda

#include "tests/fake_cuda/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/report.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace fake_cuda {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLeastReserve = uint64_t{16} << 30;
// Lies before and after the data in their pages.
constexpr std::byte kFiller{0xA5};

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// The address sanitizer then finds what is beside the data itself, reads included.
void hide(const std::byte* begin, const std::byte* end, bool hidden) {
#if defined(__SANITIZE_ADDRESS__)
  if (hidden) {
    ASAN_POISON_MEMORY_REGION(begin, static_cast<size_t>(end - begin));
  } else {
    ASAN_UNPOISON_MEMORY_REGION(begin, static_cast<size_t>(end - begin));
  }
#else
  static_cast<void>(begin), static_cast<void>(end), static_cast<void>(hidden);
#endif
}

void hide_sides(const Allocation& allocation, bool hidden) {
  hide(allocation.pages, allocation.data, hidden);
  hide(allocation.data + allocation.bytes, allocation.pages + allocation.page_bytes, hidden);
}

}  // namespace

DeviceMemory::DeviceMemory(int device, uint64_t capacity)
    : device_(device), capacity_(capacity), reserved_(std::max(kLeastReserve, 4 * capacity)) {
  void* base = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) die("no {} bytes of addresses for the memory of device {}", reserved_, device);
  base_ = static_cast<std::byte*>(base);
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [pages, allocation] : allocations_) hide(pages, pages + allocation.page_bytes, false);
  munmap(base_, reserved_);
}

Allocation* DeviceMemory::allocate(uint64_t bytes, uint64_t alignment, std::string made_by) {
  if (bytes > capacity_ - used_) return nullptr;
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.page_bytes = round_up(bytes, kPage);
  if (next_ + allocation.page_bytes + kPage > reserved_) {
    die("device {} has allocated {} bytes in all; addresses are never used again, raise FAKE_CUDA_MEMORY", device_,
        next_);
  }
  allocation.pages = base_ + next_;
  allocation.data = allocation.pages + (allocation.page_bytes - round_up(bytes, alignment));
  allocation.number = static_cast<int>(allocations_.size()) + 1;
  allocation.made_by = std::move(made_by);
  next_ += allocation.page_bytes + kPage;
  used_ += bytes;

  protect(allocation, PROT_READ | PROT_WRITE);
  std::memset(allocation.pages, static_cast<int>(kFiller), allocation.page_bytes);
  std::memset(allocation.data, 0xff, bytes);
  hide_sides(allocation, true);
  if (opened_ == 0 && !allocation.is_managed()) protect(allocation, PROT_NONE);
  return &allocations_.emplace(allocation.pages, std::move(allocation)).first->second;
}

void DeviceMemory::release(Allocation& allocation) {
  protect(allocation, PROT_READ | PROT_WRITE);
  hide_sides(allocation, false);
  auto written = [](std::byte b) { return b != kFiller; };
  const std::byte* end = allocation.data + allocation.bytes;
  const std::byte* before = std::find_if(allocation.pages, allocation.data, written);
  const std::byte* after =
      std::find_if(end, static_cast<const std::byte*>(allocation.pages) + allocation.page_bytes, written);
  if (before != allocation.data || after != allocation.pages + allocation.page_bytes) {
    die("work wrote byte {} of allocation {} of device {}, which has {} bytes ({})",
        (before != allocation.data ? before : after) - allocation.data, allocation.number, device_, allocation.bytes,
        allocation.made_by);
  }
  madvise(allocation.pages, allocation.page_bytes, MADV_DONTNEED);
  protect(allocation, PROT_NONE);
  allocation.live = false;
  used_ -= allocation.bytes;
}

void DeviceMemory::open() {
  if (opened_++ > 0) return;
  for (const auto& [pages, allocation] : allocations_) {
    if (allocation.live) protect(allocation, PROT_READ | PROT_WRITE);
  }
}

void DeviceMemory::close() {
  if (--opened_ > 0) return;
  for (const auto& [pages, allocation] : allocations_) {
    if (allocation.live && !allocation.is_managed()) protect(allocation, PROT_NONE);
  }
}

bool DeviceMemory::contains(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= base_ && byte < base_ + reserved_;
}

Allocation* DeviceMemory::find(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  auto after = allocations_.upper_bound(byte);
  if (after == allocations_.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return byte < allocation.pages + allocation.page_bytes + kPage ? &allocation : nullptr;
}

void DeviceMemory::protect(const Allocation& allocation, int protection) {
  if (mprotect(allocation.pages, allocation.page_bytes, protection) != 0) {
    die("mprotect of allocation {} of device {} failed", allocation.number, device_);
  }
}

}  // namespace fake_cuda

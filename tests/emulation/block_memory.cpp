#include "tests/emulation/block_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "tests/emulation/sanitizers.h"

namespace gpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDistance = Stacks::kBytes + kPage;
// A NaN in f32 and bf16.
constexpr char kUndefined = '\xff';

size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

bool is_undefined(const char* begin, size_t bytes) {
  return std::all_of(begin, begin + bytes, [](char byte) { return byte == kUndefined; });
}

}  // namespace

Stacks::~Stacks() { release(); }

void Stacks::release() {
  if (memory_ != nullptr) munmap(memory_, count_ * kDistance);
  memory_ = nullptr;
  count_ = 0;
}

void Stacks::reserve(unsigned count) {
  // The thread sanitizer forgets what it knows of an address when that is unmapped: of other blocks' threads.
  if (kThreadSanitizer || count > count_) {
    release();
    void* memory = mmap(nullptr, count * kDistance, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
    count_ = count;
    for (unsigned i = 0; i < count; ++i) mprotect(memory_ + i * kDistance, kPage, PROT_NONE);
  }
  for (unsigned i = 0; i < count; ++i) allow_access(at(i), kBytes);
}

char* Stacks::at(unsigned index) const { return memory_ + index * kDistance + kPage; }

SharedMemory::SharedMemory(size_t dynamic_bytes)
    : static_(new char[2 * kStaticBytes]),
      dynamic_(new char[dynamic_bytes + (kAddressSanitizer ? 0 : kGap)]),
      edges_(new char[2 + kMaxWarps]),
      dynamic_bytes_(dynamic_bytes) {
  std::memset(static_.get(), kUndefined, 2 * kStaticBytes);
  std::memset(dynamic_.get(), kUndefined, dynamic_bytes + (kAddressSanitizer ? 0 : kGap));
  forbid_access(static_.get(), 2 * kStaticBytes);
}

char* SharedMemory::array(const void* key, size_t bytes) {
  for (size_t i = 0; i < num_arrays_; ++i) {
    if (arrays_[i].key == key) return static_.get() + arrays_[i].begin;
  }
  const size_t begin = used_;
  if (used_bytes_ + bytes > kStaticBytes || begin + bytes + kGap > 2 * kStaticBytes || num_arrays_ == kMaxArrays) {
    return nullptr;
  }
  used_ = aligned(begin + bytes + kGap);
  used_bytes_ = aligned(used_bytes_ + bytes);
  arrays_[num_arrays_++] = {key, begin, begin + bytes};
  allow_access(static_.get() + begin, bytes);
  return static_.get() + begin;
}

bool SharedMemory::overrun() const {
  if (kAddressSanitizer) return false;
  if (!is_undefined(dynamic_.get() + dynamic_bytes_, kGap)) return true;
  return std::any_of(arrays_.begin(), arrays_.begin() + static_cast<std::ptrdiff_t>(num_arrays_),
                     [this](const Array& array) { return !is_undefined(static_.get() + array.end, kGap); });
}

}  // namespace gpu

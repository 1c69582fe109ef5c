#include "runtime/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "compiler/core/check.h"

namespace tpc {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void Arena::Free::operator()(std::byte* data) const { std::free(data); }

Arena::Arena(int64_t bytes) : bytes_(bytes) {
  TPC_CHECK(bytes >= 0, "an arena of {} bytes", bytes);
  size_t wanted = static_cast<size_t>(bytes);
  size_t alignment = wanted >= 2 * kHugePage ? kHugePage : kAlignment;
  size_t size = (wanted + alignment - 1) / alignment * alignment;
  if (size == 0) size = alignment;
  void* memory = std::aligned_alloc(alignment, size);
  if (memory == nullptr) throw DeviceError(fmt::format("not enough memory for the {} bytes of a rank", bytes));
  data_.reset(static_cast<std::byte*>(memory));
  if (alignment == kHugePage) madvise(memory, size, MADV_HUGEPAGE);  // a wish: failure changes nothing
  std::memset(memory, 0, size);
}

int64_t physical_memory() { return int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)}; }

}  // namespace tpc

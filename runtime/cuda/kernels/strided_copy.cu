#include <algorithm>

#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/strided_copy.h"

namespace tpc::cuda {
namespace {

constexpr int kMaxLoops = 12;
constexpr unsigned kThreads = 256;
constexpr int64_t kUnitsOfBlock = 1024;
constexpr int kTile = 32;

struct CopyLoops {
  CopyLoop loops[kMaxLoops];  // outermost first
  int count;
};

struct Offsets {
  int64_t from;
  int64_t to;
};

/// Of pass number `index` through the loops.
__device__ __forceinline__ Offsets offsets_at(const CopyLoops& loops, int64_t index) {
  Offsets at = {0, 0};
  for (int i = loops.count - 1; i > 0; --i) {
    const CopyLoop& loop = loops.loops[i];
    const int64_t rest = index / loop.count;
    const int64_t position = index - rest * loop.count;
    at.from += position * loop.from;
    at.to += position * loop.to;
    index = rest;
  }
  if (loops.count > 0) {
    at.from += index * loops.loops[0].from;
    at.to += index * loops.loops[0].to;
  }
  return at;
}

template <class Unit>
__global__ void __launch_bounds__(kThreads)
    copy_units(const __grid_constant__ CopyLoops loops, int64_t num_units, const Unit* source, Unit* destination) {
  const int64_t begin = blockIdx.x * kUnitsOfBlock;
  const int64_t end = min(num_units, begin + kUnitsOfBlock);
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const Offsets at = offsets_at(loops, i);
    destination[at.to] = source[at.from];
  }
}

// Through shared memory, so that neighbouring threads read neighbours and write neighbours. `reads` is the loop along
// which the source is contiguous, `writes` the one of the destination.
template <class Unit>
__global__ void __launch_bounds__(kThreads) copy_tiles(const __grid_constant__ CopyLoops outer, CopyLoop reads,
                                                       CopyLoop writes, const Unit* source, Unit* destination) {
  using Row = Unit[kTile + 1];  // one more, so that a column lies in all banks
  GPU_SHARED(Row, tile, kTile);
  const int64_t read_tiles = (reads.count + kTile - 1) / kTile;
  const int64_t write_tiles = (writes.count + kTile - 1) / kTile;
  const int64_t read_begin = blockIdx.x % read_tiles * kTile;
  const int64_t write_begin = blockIdx.x / read_tiles % write_tiles * kTile;
  const Offsets at = offsets_at(outer, blockIdx.x / (read_tiles * write_tiles));
  const int lane = static_cast<int>(threadIdx.x % kTile);
  const int first_row = static_cast<int>(threadIdx.x / kTile);
  const int row_step = static_cast<int>(blockDim.x / kTile);
  for (int row = first_row; row < kTile; row += row_step) {
    const int64_t w = write_begin + row;
    const int64_t r = read_begin + lane;
    if (w < writes.count && r < reads.count) tile[row][lane] = source[at.from + w * writes.from + r];
  }
  __syncthreads();
  for (int row = first_row; row < kTile; row += row_step) {
    const int64_t r = read_begin + row;
    const int64_t w = write_begin + lane;
    if (w < writes.count && r < reads.count) destination[at.to + r * reads.to + w] = tile[lane][row];
  }
}

/// Calls visit(Unit{}) for an unsigned type of so many bytes.
template <class Visit>
void with_unit(int64_t bytes, const Visit& visit) {
  switch (bytes) {
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    case 8:
      return visit(uint2{});
    default:
      return visit(uint4{});
  }
}

CopyLoops first_loops(const std::vector<CopyLoop>& loops, size_t count) {
  CopyLoops first = {};
  first.count = static_cast<int>(count);
  std::copy_n(loops.begin(), count, first.loops);
  return first;
}

}  // namespace

StridedCopy::StridedCopy(const Region& loop, const IndexMap& from, const IndexMap& to, int64_t element_bytes)
    : element_bytes_(element_bytes), num_elements_(loop.num_elements()) {
  if (num_elements_ == 0) return;
  std::vector<int64_t> first;
  for (const Interval& interval : loop.dims) first.push_back(interval.begin);
  from_base_ = from(first);
  to_base_ = to(first);
  for (size_t d = 0; d < loop.dims.size(); ++d) {
    const CopyLoop next = {loop.dims[d].size(), from.strides[d], to.strides[d]};
    if (next.count == 1) continue;
    if (!loops_.empty() && loops_.back().from == next.from * next.count && loops_.back().to == next.to * next.count) {
      loops_.back() = {loops_.back().count * next.count, next.from, next.to};
    } else {
      loops_.push_back(next);
    }
  }
  if (loops_.empty()) loops_.push_back({1, 1, 1});
  TPC_CHECK(loops_.size() <= kMaxLoops, "a copy of {} loops", loops_.size());
  const auto reads_run = std::ranges::find(loops_, 1, &CopyLoop::from);
  if (reads_run < loops_.end() - 1 && loops_.back().to == 1 && loops_.back().from > 1) {
    std::rotate(reads_run, reads_run + 1, loops_.end() - 1);
    is_transposed_ = true;
  }
}

void StridedCopy::launch(const DeviceQueue& queue, const void* source, void* destination) const {
  if (num_elements_ == 0) return;
  const auto* from = static_cast<const std::byte*>(source) + from_base_ * element_bytes_;
  auto* to = static_cast<std::byte*>(destination) + to_base_ * element_bytes_;
  if (is_transposed_) {
    launch_tiles(queue, from, to);
  } else {
    launch_rows(queue, from, to);
  }
}

int64_t StridedCopy::unit_bytes(const void* source, const void* destination) const {
  const CopyLoop& innermost = loops_.back();
  if (innermost.from != 1 || innermost.to != 1) return element_bytes_;
  // Everything that is added up to an address.
  uintptr_t parts = reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(destination) |
                    static_cast<uintptr_t>(innermost.count * element_bytes_);
  for (size_t i = 0; i + 1 < loops_.size(); ++i) {
    parts |= static_cast<uintptr_t>(loops_[i].from * element_bytes_);
    parts |= static_cast<uintptr_t>(loops_[i].to * element_bytes_);
  }
  int64_t unit = element_bytes_;
  while (unit < 16 && parts % static_cast<uintptr_t>(2 * unit) == 0) unit *= 2;
  return unit;
}

void StridedCopy::launch_rows(const DeviceQueue& queue, const void* source, void* destination) const {
  const int64_t bytes = unit_bytes(source, destination);
  const int64_t elements_of_unit = bytes / element_bytes_;
  CopyLoops loops = first_loops(loops_, loops_.size());
  for (int i = 0; i + 1 < loops.count; ++i) {
    loops.loops[i].from /= elements_of_unit;
    loops.loops[i].to /= elements_of_unit;
  }
  loops.loops[loops.count - 1].count /= elements_of_unit;
  const int64_t num_units = num_elements_ / elements_of_unit;
  with_unit(bytes, [&](auto unit) {
    using Unit = decltype(unit);
    cuda::launch("strided copy", copy_units<Unit>,
                 {.blocks = ceil_div(num_units, kUnitsOfBlock), .threads = gpu::block_threads(kThreads)}, queue, loops,
                 num_units, static_cast<const Unit*>(source), static_cast<Unit*>(destination));
  });
}

void StridedCopy::launch_tiles(const DeviceQueue& queue, const void* source, void* destination) const {
  const CopyLoop reads = loops_[loops_.size() - 2];
  const CopyLoop writes = loops_.back();
  const int64_t outer = num_elements_ / (reads.count * writes.count);
  const int64_t blocks = outer * ceil_div(reads.count, kTile) * ceil_div(writes.count, kTile);
  with_unit(element_bytes_, [&](auto unit) {
    using Unit = decltype(unit);
    if constexpr (sizeof(Unit) <= 4) {
      cuda::launch("transposed copy", copy_tiles<Unit>, {.blocks = blocks, .threads = gpu::block_threads(kThreads)},
                   queue, first_loops(loops_, loops_.size() - 2), reads, writes, static_cast<const Unit*>(source),
                   static_cast<Unit*>(destination));
    }
  });
}

}  // namespace tpc::cuda

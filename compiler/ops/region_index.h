/// Loops over regions, and from a global index to the element of a dense local tensor. For reference kernels, and for
/// whoever prepares a kernel on shards: indices are always global, a rank's part is only an offset.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/sharding/placement.h"

namespace tpc {

/// Where a loop index finds its element: offset = base + sum over d of index[d] * strides[d].
struct IndexMap {
  int64_t base = 0;
  Shape strides;  ///< one a loop dimension; 0 where the tensor lacks it

  int64_t operator()(std::span<const int64_t> index) const {
    int64_t offset = base;
    for (size_t d = 0; d < strides.size(); ++d) offset += index[d] * strides[d];
    return offset;
  }
};

/// In index_map's `loop_dims`: the tensor's dimension follows no loop, its index is always 0.
inline constexpr int64_t kNoLoop = -1;

/// Map from the (global) indices of `loop` into the dense row-major tensor that holds `region`, whose dimension i
/// follows loop dimension loop_dims[i]. Throws InternalError when the region does not cover the loop.
IndexMap index_map(const Region& region, std::span<const int64_t> loop_dims, const Region& loop);

/// The same for a tensor that has the last dimensions of the loop: all of them, none (a scalar), or a broadcast
/// operand.
IndexMap trailing_map(const Region& region, const Region& loop);

/// {first, first + 1, ..., first + count - 1}.
std::vector<int64_t> dims_from(int64_t first, size_t count);

/// The region moved by `shift` along `dim`: a slice that starts at 3 sees its operand's region moved by -3.
Region shifted(Region region, size_t dim, int64_t shift);

/// The region without dimensions [first, first + count).
Region without_dims(Region region, size_t first, size_t count);

/// Offset of the element with global `index` in the dense tensor that holds `region`, which must contain it.
int64_t local_offset(const Region& region, std::span<const int64_t> index);

/// Global index of element number `linear` (row-major) of a tensor of `shape`.
std::vector<int64_t> unravel(int64_t linear, const Shape& shape);

/// Calls visit(index) for every index of `region` in row-major order; index is a span of the global indices.
template <class Visit>
void for_each_index(const Region& region, Visit&& visit) {
  if (region.num_elements() <= 0) return;
  std::vector<int64_t> index;
  for (const Interval& interval : region.dims) index.push_back(interval.begin);
  while (true) {
    visit(std::span<const int64_t>(index));
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == region.dims[d - 1].end) {
      index[d - 1] = region.dims[d - 1].begin;
      --d;
    }
    if (d == 0) return;
  }
}

/// Calls visit(offsets) for every index of `loop` in row-major order, with offsets[i] = maps[i](index).
/// `maps` is an array or vector of IndexMap; offsets has its size.
template <class Maps, class Visit>
void for_each_offset(const Region& loop, const Maps& maps, Visit&& visit) {
  size_t rank = loop.dims.size();
  // The innermost loop adds strides; only the outer indices go through the maps.
  Region outer = loop;
  Interval inner{0, 1};
  if (rank > 0) {
    inner = loop.dims.back();
    outer.dims.back() = {inner.begin, inner.begin + (inner.size() > 0 ? 1 : 0)};
  }
  std::vector<int64_t> offsets(std::size(maps));
  for_each_index(outer, [&](std::span<const int64_t> index) {
    for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = maps[i](index);
    for (int64_t step = 0; step < inner.size(); ++step) {
      visit(std::span<const int64_t>(offsets));
      if (rank == 0) break;
      for (size_t i = 0; i < offsets.size(); ++i) offsets[i] += maps[i].strides[rank - 1];
    }
  });
}

}  // namespace tpc

#include "compiler/ops/region_index.h"

#include <numeric>

#include "compiler/core/check.h"

namespace tpc {

IndexMap index_map(const Region& region, std::span<const int64_t> loop_dims, const Region& loop) {
  TPC_CHECK(loop_dims.size() == region.dims.size(), "{} loop dimensions for a tensor of {}", loop_dims.size(),
            region.dims.size());
  Shape strides = row_major_strides(region.extents());
  IndexMap map{0, Shape(loop.dims.size(), 0)};
  for (size_t i = 0; i < loop_dims.size(); ++i) {
    const Interval& held = region.dims[i];
    bool follows = loop_dims[i] != kNoLoop;
    Interval wanted = follows ? loop.dims[static_cast<size_t>(loop_dims[i])] : Interval{0, 1};
    TPC_CHECK(held.begin <= wanted.begin && wanted.end <= held.end, "dimension {} holds [{}, {}), [{}, {}) is needed",
              i, held.begin, held.end, wanted.begin, wanted.end);
    map.base -= held.begin * strides[i];
    if (follows) map.strides[static_cast<size_t>(loop_dims[i])] += strides[i];
  }
  return map;
}

IndexMap trailing_map(const Region& region, const Region& loop) {
  TPC_CHECK(region.dims.size() <= loop.dims.size(), "a tensor of {} dimensions in a loop of {}", region.dims.size(),
            loop.dims.size());
  auto first = static_cast<int64_t>(loop.dims.size() - region.dims.size());
  return index_map(region, dims_from(first, region.dims.size()), loop);
}

std::vector<int64_t> dims_from(int64_t first, size_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}

Region shifted(Region region, size_t dim, int64_t shift) {
  region.dims[dim].begin += shift;
  region.dims[dim].end += shift;
  return region;
}

Region without_dims(Region region, size_t first, size_t count) {
  auto begin = region.dims.begin() + static_cast<std::ptrdiff_t>(first);
  region.dims.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  return region;
}

int64_t local_offset(const Region& region, std::span<const int64_t> index) {
  TPC_CHECK(index.size() == region.dims.size(), "an index of {} in a tensor of {} dimensions", index.size(),
            region.dims.size());
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    const Interval& held = region.dims[i];
    TPC_CHECK(held.begin <= index[i] && index[i] < held.end, "dimension {} holds [{}, {}), {} is needed", i, held.begin,
              held.end, index[i]);
    offset = offset * held.size() + (index[i] - held.begin);
  }
  return offset;
}

std::vector<int64_t> unravel(int64_t linear, const Shape& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i > 0; --i) {
    index[i - 1] = linear % shape[i - 1];
    linear /= shape[i - 1];
  }
  return index;
}

}  // namespace tpc

#include "compiler/lowering/region_copy.h"

#include <algorithm>
#include <cstring>

#include "compiler/core/check.h"

namespace tpc {

Region intersection(const Region& a, const Region& b) {
  TPC_CHECK(a.dims.size() == b.dims.size(), "regions of {} and {} dimensions", a.dims.size(), b.dims.size());
  Region shared;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    int64_t begin = std::max(a.dims[d].begin, b.dims[d].begin);
    shared.dims.push_back({begin, std::max(begin, std::min(a.dims[d].end, b.dims[d].end))});
  }
  return shared;
}

RegionCopy::RegionCopy(const Region& source, const Region& destination) {
  Region shared = intersection(source, destination);
  num_elements_ = shared.num_elements();
  if (num_elements_ == 0) return;
  Shape source_strides = row_major_strides(source.extents());
  Shape destination_strides = row_major_strides(destination.extents());
  for (size_t d = shared.dims.size(); d-- > 0;) {
    source_offset_ += (shared.dims[d].begin - source.dims[d].begin) * source_strides[d];
    destination_offset_ += (shared.dims[d].begin - destination.dims[d].begin) * destination_strides[d];
    int64_t count = shared.dims[d].size();
    if (count == 1) continue;
    // A dimension that continues the run, or the loop inside it, without a gap on both sides is merged into it.
    bool extends_run = loops_.empty() && source_strides[d] == run_length_ && destination_strides[d] == run_length_;
    bool extends_loop = !loops_.empty() && source_strides[d] == loops_.back().count * loops_.back().source_stride &&
                        destination_strides[d] == loops_.back().count * loops_.back().destination_stride;
    if (extends_run) {
      run_length_ *= count;
    } else if (extends_loop) {
      loops_.back().count *= count;
    } else {
      loops_.push_back({count, source_strides[d], destination_strides[d]});
    }
  }
}

int64_t RegionCopy::run(const void* source, void* destination, int64_t element_size) const {
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(destination);
  int64_t copied = 0;
  for_each_run([&](int64_t source_offset, int64_t destination_offset, int64_t length) {
    std::memcpy(to + destination_offset * element_size, from + source_offset * element_size,
                static_cast<size_t>(length * element_size));
    copied += length;
  });
  return copied;
}

}  // namespace tpc

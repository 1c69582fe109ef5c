/// Copies between two dense row-major tensors that hold parts of one global tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/sharding/placement.h"

namespace tpc {

/// What both regions hold. A tensor without dimensions has one element.
Region intersection(const Region& a, const Region& b);

/// The elements that `source` and `destination` share, as loops over contiguous runs; made once, walked often.
/// Offsets count elements from the start of each tensor's own part: source region [0,4)x[2,6), destination region
/// [1,3)x[2,6) is one run of 8 elements from offset 4 to offset 0.
class RegionCopy {
 public:
  RegionCopy(const Region& source, const Region& destination);

  int64_t num_elements() const { return num_elements_; }

  /// Calls run(source_offset, destination_offset, length) for every contiguous run, in row-major order.
  template <class Run>
  void for_each_run(const Run& run) const {
    if (num_elements_ > 0) walk(loops_.size(), source_offset_, destination_offset_, run);
  }

  /// Copies elements of `element_size` bytes and returns how many. The tensors do not overlap.
  int64_t run(const void* source, void* destination, int64_t element_size = 4) const;

 private:
  struct Loop {
    int64_t count = 0;
    int64_t source_stride = 0;
    int64_t destination_stride = 0;
  };

  template <class Run>
  void walk(size_t level, int64_t source, int64_t destination, const Run& run) const {
    if (level == 0) {
      run(source, destination, run_length_);
      return;
    }
    const Loop& loop = loops_[level - 1];
    for (int64_t i = 0; i < loop.count; ++i) {
      walk(level - 1, source + i * loop.source_stride, destination + i * loop.destination_stride, run);
    }
  }

  int64_t source_offset_ = 0;
  int64_t destination_offset_ = 0;
  int64_t run_length_ = 1;
  int64_t num_elements_ = 0;
  std::vector<Loop> loops_;  // innermost first
};

}  // namespace tpc

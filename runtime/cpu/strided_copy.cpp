#include "runtime/cpu/strided_copy.h"

#include <algorithm>

#include "runtime/cpu/parallel.h"

namespace tpc {

StridedCopy::StridedCopy(const Region& loop, const IndexMap& from, const IndexMap& to) {
  std::vector<int64_t> first;
  for (const Interval& interval : loop.dims) first.push_back(interval.begin);
  from_base_ = from(first);
  to_base_ = to(first);
  for (size_t d = 0; d < loop.dims.size(); ++d) {
    const Loop next = {loop.dims[d].size(), from.strides[d], to.strides[d]};
    if (next.count == 1) continue;
    if (!loops_.empty() && loops_.back().from == next.from * next.count && loops_.back().to == next.to * next.count) {
      loops_.back() = {loops_.back().count * next.count, next.from, next.to};
    } else {
      loops_.push_back(next);
    }
  }
  if (loops_.empty()) loops_.push_back({1, 1, 1});
  // Writes run along the innermost loop; where reads run along another one, that becomes its neighbour.
  auto reads_run = std::ranges::find(loops_, 1, &Loop::from);
  if (loops_.size() >= 2 && reads_run < loops_.end() - 1 && loops_.back().to == 1 && loops_.back().from > 1) {
    std::rotate(reads_run, reads_run + 1, loops_.end() - 1);
    is_transposed_ = true;
  }
}

void StridedCopy::run(const float* source, float* destination) const {
  const float* from = source + from_base_;
  float* to = destination + to_base_;
  const size_t innermost = is_transposed_ ? 2 : 1;
  if (loops_.size() == innermost) {
    walk(0, from, to);
    return;
  }
  int64_t work = 1;
  for (size_t i = 1; i < loops_.size(); ++i) work *= loops_[i].count;
  parallel_ranges(loops_[0].count, work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) walk(1, from + i * loops_[0].from, to + i * loops_[0].to);
  });
}

void StridedCopy::walk(size_t level, const float* source, float* destination) const {
  if (is_transposed_ && level + 2 == loops_.size()) {
    copy_tiles(source, destination);
  } else if (level + 1 == loops_.size()) {
    copy_innermost(source, destination);
  } else {
    const Loop& loop = loops_[level];
    for (int64_t i = 0; i < loop.count; ++i) walk(level + 1, source + i * loop.from, destination + i * loop.to);
  }
}

void StridedCopy::copy_innermost(const float* source, float* destination) const {
  const Loop& loop = loops_.back();
  if (loop.from == 1 && loop.to == 1) {
    std::copy_n(source, loop.count, destination);
  } else if (loop.from == 0 && loop.to == 1) {
    std::fill_n(destination, loop.count, *source);
  } else {
    for (int64_t i = 0; i < loop.count; ++i) destination[i * loop.to] = source[i * loop.from];
  }
}

void StridedCopy::copy_tiles(const float* source, float* destination) const {
  // A tile's lines of both sides stay in the first-level cache.
  constexpr int64_t kTile = 16;
  const Loop& reads = loops_[loops_.size() - 2];
  const Loop& writes = loops_.back();
  for (int64_t i = 0; i < reads.count; i += kTile) {
    const int64_t i_end = std::min(reads.count, i + kTile);
    for (int64_t j = 0; j < writes.count; j += kTile) {
      const int64_t j_end = std::min(writes.count, j + kTile);
      for (int64_t r = i; r < i_end; ++r) {
        for (int64_t w = j; w < j_end; ++w) destination[r * reads.to + w] = source[r + w * writes.from];
      }
    }
  }
}

}  // namespace tpc

/// Copies between tensors that lie differently: transposed, sliced, stacked, repeated.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ops/region_index.h"

namespace tpc {

/// destination[to(index)] = source[from(index)] for every index of a loop region, for elements of 4 bytes. Prepared
/// once: dimensions that both sides walk alike are merged, and a transposed pair is walked in tiles.
class StridedCopy {
 public:
  StridedCopy(const Region& loop, const IndexMap& from, const IndexMap& to);

  /// The tensors do not overlap.
  void run(const float* source, float* destination) const;

 private:
  struct Loop {
    int64_t count = 1;
    int64_t from = 0;
    int64_t to = 0;
  };

  void walk(size_t level, const float* source, float* destination) const;
  void copy_innermost(const float* source, float* destination) const;
  void copy_tiles(const float* source, float* destination) const;

  std::vector<Loop> loops_;  // outermost first; at least one
  bool is_transposed_ = false;
  int64_t from_base_ = 0;
  int64_t to_base_ = 0;
};

}  // namespace tpc

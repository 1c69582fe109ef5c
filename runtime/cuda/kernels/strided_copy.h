/// Copies between tensors that lie differently: transposed, sliced, stacked, repeated.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ops/region_index.h"
#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

/// One loop of a copy; strides count elements.
struct CopyLoop {
  int64_t count = 1;
  int64_t from = 0;
  int64_t to = 0;
};

/// destination[to(index)] = source[from(index)] for every index of a loop region, for elements of 2 or 4 bytes that are
/// copied as they are. Made in prepare(): dimensions that both sides walk alike are merged.
class StridedCopy {
 public:
  /// Throws InternalError when more loops are left than the kernels take.
  StridedCopy(const Region& loop, const IndexMap& from, const IndexMap& to, int64_t element_bytes);

  /// Puts the copy on the queue's stream. The tensors do not overlap.
  void launch(const DeviceQueue& queue, const void* source, void* destination) const;

 private:
  void launch_rows(const DeviceQueue& queue, const void* source, void* destination) const;
  void launch_tiles(const DeviceQueue& queue, const void* source, void* destination) const;
  /// The largest number of bytes, up to 16, that the innermost loop copies at once.
  int64_t unit_bytes(const void* source, const void* destination) const;

  int64_t element_bytes_ = 0;
  int64_t num_elements_ = 0;
  int64_t from_base_ = 0;
  int64_t to_base_ = 0;
  std::vector<CopyLoop> loops_;  // outermost first; at least one unless the region is empty
  /// Reads run along another loop than writes, the last but one.
  bool is_transposed_ = false;
};

}  // namespace tpc::cuda

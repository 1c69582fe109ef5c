// The moves that need no other rank.
#include <algorithm>

#include "runtime/cpu/kernel_table.h"
#include "compiler/lowering/region_copy.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_local_slice(const LocalStep& step) {
  const RegionCopy copy(step.operands[0].region, step.results[0].region);
  return make_kernel(
      [copy, x = step.operands[0].data, y = step.results[0].data](const StepContext&) { copy.run(x, y); });
}

std::unique_ptr<Kernel> prepare_mask(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=, is_kept = step.is_first_in_group](const StepContext&) {
    if (!is_kept) {
      std::fill_n(y, size, 0.0f);
    } else if (x != y) {
      std::copy_n(x, size, y);
    }
  });
}

std::unique_ptr<Kernel> prepare_zero_pad(const LocalStep& step) {
  const RegionCopy copy(step.operands[0].region, step.results[0].region);
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    std::fill_n(y, size, 0.0f);
    copy.run(x, y);
  });
}

}  // namespace tpc

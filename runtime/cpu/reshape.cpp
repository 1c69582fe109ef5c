#include <algorithm>

#include "runtime/cpu/kernel_table.h"

namespace tpc {

// Placements split a group of merged dimensions at its outermost one only, so the local elements keep their order.
std::unique_ptr<Kernel> prepare_reshape(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    if (x != y) std::copy_n(x, size, y);
  });
}

}  // namespace tpc

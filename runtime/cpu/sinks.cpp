#include <algorithm>

#include "runtime/cpu/kernel_table.h"

namespace tpc {

// A new value that was made over the old one is there already.
std::unique_ptr<Kernel> prepare_update(const LocalStep& step) {
  float* target = step.operands[0].f32();
  const float* value = step.operands[1].f32();
  const int64_t size = step.operands[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    if (target != value) std::copy_n(value, size, target);
  });
}

}  // namespace tpc

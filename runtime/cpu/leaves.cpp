#include <algorithm>

#include "runtime/cpu/kernel_table.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_fill(const LocalStep& step) {
  float* y = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  const float value = static_cast<float>(step.attributes.get_double("value"));
  return make_kernel([=](const StepContext&) { std::fill_n(y, size, value); });
}

}  // namespace tpc

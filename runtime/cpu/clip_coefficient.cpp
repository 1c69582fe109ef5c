#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernel_table.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_clip_coefficient(const LocalStep& step) {
  const float* sum_of_squares = step.operands[0].f32();
  float* y = step.results[0].f32();
  const double max_norm = step.attributes.get_double("max_norm");
  return make_kernel([=](const StepContext&) {
    *y = static_cast<float>(std::min(1.0, max_norm / (std::sqrt(static_cast<double>(*sum_of_squares)) + 1e-6)));
  });
}

}  // namespace tpc

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_square_root(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    parallel_ranges(size, 4,
                    [&](int64_t begin, int64_t end) { map_vectors(end - begin, y + begin, square_root, x + begin); });
  });
}

}  // namespace tpc

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_row_max(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* m = step.results[0].f32();
  const int64_t v = step.operands[0].region.dims.back().size();
  const int64_t rows = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    parallel_ranges(rows, v, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) m[i] = max_of(v, x + i * v);
    });
  });
}

}  // namespace tpc

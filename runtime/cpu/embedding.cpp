// Rows of a table, and the gradient that adds rows back.
#include <algorithm>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_embedding(const LocalStep& step) {
  const int32_t* ids = step.operands[0].i32();
  const float* table = step.operands[1].f32();
  float* y = step.results[0].f32();
  const int64_t tokens = step.operands[0].region.num_elements();
  const Interval v = step.operands[1].region.dims[0];
  const int64_t width = step.operands[1].region.num_elements() / v.size();
  return make_kernel([=](const StepContext&) {
    parallel_ranges(tokens, width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* row = y + i * width;
        if (ids[i] >= v.begin && ids[i] < v.end) {
          std::copy_n(table + (ids[i] - v.begin) * width, width, row);
        } else {
          std::fill_n(row, width, 0.0f);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> prepare_embedding_grad(const LocalStep& step) {
  const int32_t* ids = step.operands[0].i32();
  const float* dy = step.operands[1].f32();
  float* dtable = step.results[0].f32();
  const int64_t tokens = step.operands[0].region.num_elements();
  const Interval v = step.results[0].region.dims[0];
  const int64_t width = step.results[0].region.num_elements() / v.size();
  return make_kernel([=](const StepContext&) {
    // Threads take rows of the table and each looks at all tokens, so that rows are summed in the tokens' order.
    parallel_ranges(v.size(), width + tokens * width / v.size(), [&](int64_t begin, int64_t end) {
      std::fill(dtable + begin * width, dtable + end * width, 0.0f);
      for (int64_t i = 0; i < tokens; ++i) {
        const int64_t row = ids[i] - v.begin;
        if (row < begin || row >= end) continue;
        float* to = dtable + row * width;
        map_vectors(
            width, to, [](Vector a, Vector b) { return a + b; }, to, dy + i * width);
      }
    });
  });
}

}  // namespace tpc

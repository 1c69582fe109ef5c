// Softmax over the last dimension, and its gradient.
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/vector_math.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_softmax(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t v = step.operands[0].region.dims.back().size();
  const int64_t rows = step.operands[0].region.num_elements() / v;
  return make_kernel([=](const StepContext&) {
    parallel_ranges(rows, 8 * v, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* row = y + i * v;
        const float largest = max_of(v, x + i * v);
        map_vectors(
            v, row, [&](Vector a) { return vector_exp(a - largest); }, x + i * v);
        const float factor = 1.0f / sum_vectors(
                                        v, [](Vector a) { return a; }, row);
        map_vectors(
            v, row, [&](Vector a) { return a * factor; }, row);
      }
    });
  });
}

std::unique_ptr<Kernel> prepare_softmax_grad(const LocalStep& step) {
  const float* dy = step.operands[0].f32();
  const float* y = step.operands[1].f32();
  float* dx = step.results[0].f32();
  const int64_t v = step.operands[1].region.dims.back().size();
  const int64_t rows = step.operands[1].region.num_elements() / v;
  return make_kernel([=](const StepContext&) {
    parallel_ranges(rows, 2 * v, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float dot = sum_vectors(
            v, [](Vector a, Vector b) { return a * b; }, dy + i * v, y + i * v);
        map_vectors(
            v, dx + i * v, [&](Vector a, Vector b) { return b * (a - dot); }, dy + i * v, y + i * v);
      }
    });
  });
}

}  // namespace tpc

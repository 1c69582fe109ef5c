// Layer normalisation over the last dimension, and its gradient.
#include <cmath>

#include "runtime/cpu/column_sums.h"
#include "runtime/cpu/kernel_table.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_layer_norm(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  const float* gain = step.operands[1].f32();
  const float* bias = step.operands[2].f32();
  float* y = step.results[0].f32();
  float* mean = step.results[1].f32();
  float* rstd = step.results[2].f32();
  const int64_t h = step.operands[0].region.dims.back().size();
  const int64_t rows = step.results[1].region.num_elements();
  const double eps = step.attributes.get_double("eps");
  return make_kernel([=](const StepContext&) {
    parallel_ranges(rows, 4 * h, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = x + i * h;
        const float average = sum_vectors(
                                  h, [](Vector v) { return v; }, row) /
                              static_cast<float>(h);
        // About the mean, not from the squares: nothing cancels.
        const float squares = sum_vectors(
            h, [&](Vector v) { return (v - average) * (v - average); }, row);
        const float scale =
            static_cast<float>(1.0 / std::sqrt(static_cast<double>(squares) / static_cast<double>(h) + eps));
        map_vectors(
            h, y + i * h, [&](Vector v, Vector g, Vector b) { return multiply_add((v - average) * scale, g, b); }, row,
            gain, bias);
        mean[i] = average;
        rstd[i] = scale;
      }
    });
  });
}

std::unique_ptr<Kernel> prepare_layer_norm_grad(const LocalStep& step) {
  const float* dy = step.operands[0].f32();
  const float* x = step.operands[1].f32();
  const float* mean = step.operands[2].f32();
  const float* rstd = step.operands[3].f32();
  const float* gain = step.operands[4].f32();
  float* dx = step.results[0].f32();
  float* dgain = step.results[1].f32();
  float* dbias = step.results[2].f32();
  const int64_t h = step.operands[1].region.dims.back().size();
  const int64_t rows = step.operands[2].region.num_elements();
  return make_kernel([=](const StepContext&) {
    // First, since dx may lie over dy or x.
    column_sums<2>(rows, h, {dgain, dbias}, [&](int64_t i, int64_t j, const auto& load_at) {
      const Vector g = load_at(dy + i * h + j);
      return std::array{g * ((load_at(x + i * h + j) - mean[i]) * rstd[i]), g};
    });
    parallel_ranges(rows, 4 * h, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* grads = dy + i * h;
        const float* row = x + i * h;
        const float m = mean[i];
        const float r = rstd[i];
        const float average_g = sum_vectors(
                                    h, [](Vector g, Vector w) { return g * w; }, grads, gain) /
                                static_cast<float>(h);
        const float average_gn =
            sum_vectors(
                h, [&](Vector g, Vector w, Vector v) { return g * w * ((v - m) * r); }, grads, gain, row) /
            static_cast<float>(h);
        map_vectors(
            h, dx + i * h,
            [&](Vector g, Vector w, Vector v) { return r * (g * w - average_g - (v - m) * r * average_gn); }, grads,
            gain, row);
      }
    });
  });
}

}  // namespace tpc

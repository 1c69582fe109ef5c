// The factor of all gradients that brings their norm down to the largest one allowed: one thread, in double.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"

namespace tpc::cuda {
namespace {

// y may lie over the sum.
__global__ void clip_coefficient(const float* sum_of_squares, double max_norm, float* y) {
  const double coefficient = max_norm / (sqrt(static_cast<double>(*sum_of_squares)) + 1e-6);
  *y = static_cast<float>(coefficient < 1.0 ? coefficient : 1.0);
}

}  // namespace

std::unique_ptr<Kernel> prepare_clip_coefficient(const LocalStep& step, DeviceQueue& queue) {
  const double max_norm = step.attributes.get_double("max_norm");
  const float* sum_of_squares = data_of<float>(step.operands[0]);
  float* y = data_of<float>(step.results[0]);
  return make_kernel([=, &queue] {
    launch("clip_coefficient", clip_coefficient, {.blocks = 1, .threads = 1}, queue, sum_of_squares, max_norm, y);
  });
}

}  // namespace tpc::cuda

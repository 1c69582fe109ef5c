// Root-mean-square normalisation over the last dimension, and its gradient.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/norm_launch.cuh"

namespace tpc::cuda {

std::unique_ptr<Kernel> prepare_rms_norm(const LocalStep& step, DeviceQueue& queue) {
  const float eps = static_cast<float>(step.attributes.get_double("eps"));
  return with_norm_types(step.operands[0], step.operands[1], [&](auto element, auto parameter) {
    using T = decltype(element);
    using P = decltype(parameter);
    return make_norm<false>(queue, step.operands[0].region,
                            NormTensors<T, P>{.x = data_of<T>(step.operands[0]),
                                              .gain = data_of<P>(step.operands[1]),
                                              .y = data_of<T>(step.results[0]),
                                              .rstd = data_of<float>(step.results[1])},
                            eps);
  });
}

std::unique_ptr<Kernel> prepare_rms_norm_grad(const LocalStep& step, DeviceQueue& queue) {
  return with_norm_types(step.operands[1], step.operands[3], [&](auto element, auto parameter) {
    using T = decltype(element);
    using P = decltype(parameter);
    return make_norm_grad<false>(queue, step.operands[1].region,
                                 NormGradTensors<T, P>{.dy = data_of<T>(step.operands[0]),
                                                       .x = data_of<T>(step.operands[1]),
                                                       .rstd = data_of<float>(step.operands[2]),
                                                       .gain = data_of<P>(step.operands[3]),
                                                       .dx = data_of<T>(step.results[0]),
                                                       .dgain = data_of<float>(step.results[1])});
  });
}

}  // namespace tpc::cuda

// One step of stochastic gradient descent as in PyTorch: weight decay added to the gradient, no dampening, no Nesterov.
#include <algorithm>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_sgd(const LocalStep& step) {
  const float momentum = static_cast<float>(step.attributes.get_double("momentum"));
  const bool keeps_momentum = step.attributes.get_double("momentum") != 0;
  const float lr = static_cast<float>(step.attributes.get_double("lr"));
  const float weight_decay = static_cast<float>(step.attributes.get_double("weight_decay"));
  const float* w = step.operands[0].f32();
  const float* g = step.operands[1].f32();
  const float* buffer = keeps_momentum ? step.operands[2].f32() : nullptr;
  const float* coefficient = step.attributes.get_bool("has_coefficient") ? step.operands.back().f32() : nullptr;
  float* new_w = step.results[0].f32();
  float* new_buffer = keeps_momentum ? step.results[1].f32() : nullptr;
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    const float factor = coefficient != nullptr ? *coefficient : 1.0f;
    parallel_ranges(size, 4, [&](int64_t begin, int64_t end) {
      const int64_t count = end - begin;
      auto change = [&](Vector grad, Vector weight) { return factor * grad + weight_decay * weight; };
      if (!keeps_momentum) {
        map_vectors(
            count, new_w + begin, [&](Vector grad, Vector weight) { return weight - lr * change(grad, weight); },
            g + begin, w + begin);
        return;
      }
      map_vectors(
          count, new_buffer + begin,
          [&](Vector old, Vector grad, Vector weight) { return momentum * old + change(grad, weight); }, buffer + begin,
          g + begin, w + begin);
      map_vectors(
          count, new_w + begin, [&](Vector weight, Vector moved) { return weight - lr * moved; }, w + begin,
          new_buffer + begin);
    });
  });
}

}  // namespace tpc

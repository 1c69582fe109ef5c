// Cross entropy from the softmax statistics, summed over tokens in double.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernel_table.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_token_loss(const LocalStep& step) {
  const int64_t tokens = step.operands[1].region.num_elements();
  const float* sums = step.operands[0].f32();
  const float* target_logits = sums + tokens;
  const int32_t* targets = step.operands[1].i32();
  float* loss_sum = step.results[0].f32();
  float* count = step.results[1].f32();
  const int64_t ignore_index = step.attributes.get_int("ignore_index");
  return make_kernel([=](const StepContext&) {
    double total = 0;
    int64_t counted = 0;
    for (int64_t i = 0; i < tokens; ++i) {
      if (targets[i] == ignore_index) continue;
      total += std::log(static_cast<double>(sums[i])) - static_cast<double>(target_logits[i]);
      ++counted;
    }
    *loss_sum = static_cast<float>(total);
    *count = static_cast<float>(counted);
  });
}

std::unique_ptr<Kernel> prepare_token_loss_grad(const LocalStep& step) {
  const int64_t tokens = step.operands[1].region.num_elements();
  const float* sums = step.operands[0].f32();
  const int32_t* targets = step.operands[1].i32();
  const float* dloss = step.operands[2].f32();
  float* dsums = step.results[0].f32();
  float* dtarget_logits = dsums + tokens;
  const int64_t ignore_index = step.attributes.get_int("ignore_index");
  return make_kernel([=](const StepContext&) {
    const float d = *dloss;
    for (int64_t i = 0; i < tokens; ++i) {
      const bool is_counted = targets[i] != ignore_index;
      dsums[i] = is_counted ? d / sums[i] : 0.0f;
      dtarget_logits[i] = is_counted ? -d : 0.0f;
    }
  });
}

}  // namespace tpc

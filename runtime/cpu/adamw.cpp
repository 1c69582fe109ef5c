// One step of AdamW, in PyTorch's order of operations; the bias corrections are computed in double.
#include <cmath>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {
namespace {

struct AdamWUpdate {
  Vector decay;
  Vector beta1, one_minus_beta1;
  Vector beta2, one_minus_beta2;
  Vector step_size;    // lr / (1 - beta1^t)
  Vector root_factor;  // 1 / sqrt(1 - beta2^t)
  Vector eps;
  Vector coefficient;
};

}  // namespace

std::unique_ptr<Kernel> prepare_adamw(const LocalStep& step) {
  const float* w = step.operands[0].f32();
  const float* g = step.operands[1].f32();
  const float* m = step.operands[2].f32();
  const float* v = step.operands[3].f32();
  const float* coefficient = step.attributes.get_bool("has_coefficient") ? step.operands[4].f32() : nullptr;
  float* new_w = step.results[0].f32();
  float* new_m = step.results[1].f32();
  float* new_v = step.results[2].f32();
  const int64_t size = step.results[0].region.num_elements();
  const double lr = step.attributes.get_double("lr");
  const double beta1 = step.attributes.get_double("beta1");
  const double beta2 = step.attributes.get_double("beta2");
  const double eps = step.attributes.get_double("eps");
  const double weight_decay = step.attributes.get_double("weight_decay");
  return make_kernel([=](const StepContext& context) {
    auto all_lanes = [](double value) { return broadcast(static_cast<float>(value)); };
    const double t = static_cast<double>(context.step + 1);
    const AdamWUpdate update = {
        .decay = all_lanes(1.0 - lr * weight_decay),
        .beta1 = all_lanes(beta1),
        .one_minus_beta1 = all_lanes(1.0 - beta1),
        .beta2 = all_lanes(beta2),
        .one_minus_beta2 = all_lanes(1.0 - beta2),
        .step_size = all_lanes(lr / (1.0 - std::pow(beta1, t))),
        .root_factor = all_lanes(1.0 / std::sqrt(1.0 - std::pow(beta2, t))),
        .eps = all_lanes(eps),
        .coefficient = broadcast(coefficient != nullptr ? *coefficient : 1.0f),
    };
    parallel_ranges(size, 8, [&](int64_t begin, int64_t end) {
      auto advance = [&](int64_t i, const auto& read, const auto& write) {
        const Vector grad = update.coefficient * read(g + i);
        const Vector first = multiply_add(update.beta1, read(m + i), update.one_minus_beta1 * grad);
        const Vector second = multiply_add(update.beta2, read(v + i), update.one_minus_beta2 * grad * grad);
        const Vector denominator = multiply_add(square_root(second), update.root_factor, update.eps);
        write(new_w + i, update.decay * read(w + i) - update.step_size * first / denominator);
        write(new_m + i, first);
        write(new_v + i, second);
      };
      int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) {
        advance(
            i, [](const float* from) { return load(from); }, [](float* to, Vector x) { store(to, x); });
      }
      if (i < end) {
        const int64_t rest = end - i;
        advance(
            i, [rest](const float* from) { return load_first(from, rest); },
            [rest](float* to, Vector x) { store_first(to, x, rest); });
      }
    });
  });
}

}  // namespace tpc

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"

namespace tpc {
namespace {

template <class From, class To>
std::unique_ptr<Kernel> converting(const LocalStep& step) {
  const From* x = static_cast<const From*>(step.operands[0].data);
  To* y = static_cast<To*>(step.results[0].data);
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    parallel_ranges(size, 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = static_cast<To>(x[i]);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_cast(const LocalStep& step) {
  const bool from_f32 = step.operands[0].type.dtype == DType::kF32;
  const bool to_f32 = step.results[0].type.dtype == DType::kF32;
  if (from_f32) return to_f32 ? converting<float, float>(step) : converting<float, BFloat16>(step);
  return to_f32 ? converting<BFloat16, float>(step) : converting<BFloat16, BFloat16>(step);
}

}  // namespace tpc

#include "runtime/cpu/widened_kernel.h"

#include <algorithm>
#include <vector>

#include "runtime/cpu/parallel.h"

namespace tpc {
namespace {

/// A bf16 tensor and its f32 form.
struct WidenedTensor {
  BFloat16* narrow = nullptr;
  float* wide = nullptr;
  int64_t size = 0;
};

void widen(const WidenedTensor& tensor) {
  parallel_ranges(tensor.size, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) tensor.wide[i] = static_cast<float>(tensor.narrow[i]);
  });
}

void round(const WidenedTensor& tensor) {
  parallel_ranges(tensor.size, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) tensor.narrow[i] = BFloat16(tensor.wide[i]);
  });
}

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(std::unique_ptr<Kernel> kernel, std::shared_ptr<LastingFloats> room,
                std::vector<WidenedTensor> operands, std::vector<WidenedTensor> results)
      : kernel_(std::move(kernel)),
        room_(std::move(room)),
        operands_(std::move(operands)),
        results_(std::move(results)) {}

  void run(const StepContext& context) override {
    for (const WidenedTensor& operand : operands_) widen(operand);
    kernel_->run(context);
    for (const WidenedTensor& result : results_) round(result);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::shared_ptr<LastingFloats> room_;
  std::vector<WidenedTensor> operands_;
  std::vector<WidenedTensor> results_;
};

bool is_bf16(const LocalTensor& tensor) { return tensor.type.dtype == DType::kBF16; }

constexpr int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

bool has_bf16(const LocalStep& step) {
  return std::ranges::any_of(step.operands, is_bf16) || std::ranges::any_of(step.results, is_bf16);
}

std::unique_ptr<Kernel> widened_kernel(const LocalStep& step, std::shared_ptr<LastingFloats> room,
                                       const std::function<std::unique_ptr<Kernel>(const LocalStep&)>& prepare) {
  LocalStep wide = step;
  int64_t floats = 0;
  for (const auto* list : {&wide.operands, &wide.results}) {
    for (const LocalTensor& tensor : *list) {
      if (is_bf16(tensor)) floats += whole_lines(tensor.region.num_elements());
    }
  }
  float* next = room->room(floats);
  auto widened = [&](std::vector<LocalTensor>& list) {
    std::vector<WidenedTensor> tensors;
    for (LocalTensor& tensor : list) {
      if (!is_bf16(tensor)) continue;
      tensors.push_back({tensor.bf16(), next, tensor.region.num_elements()});
      tensor.type.dtype = DType::kF32;
      tensor.data = next;
      next += whole_lines(tensors.back().size);
    }
    return tensors;
  };
  std::vector<WidenedTensor> operands = widened(wide.operands);
  std::vector<WidenedTensor> results = widened(wide.results);
  return std::make_unique<WidenedKernel>(prepare(wide), std::move(room), std::move(operands), std::move(results));
}

}  // namespace tpc

#include "tests/kernels/kernel_samples.h"

#include <optional>

#include "compiler/core/bfloat16.h"
#include "tests/support/op_samples.h"

namespace tpc::testing {
namespace {

void round_to_type(GlobalTensor& tensor) {
  for (double& value : tensor.data) {
    const float rounded = static_cast<float>(value);
    value = tensor.type.dtype == DType::kBF16 ? static_cast<double>(BFloat16(rounded)) : static_cast<double>(rounded);
  }
}

std::optional<KernelCase> with_full_leaves(KernelCase sample) {
  const FloatRoles& floats = op_def(sample.op).floats;
  bool any_data = false;
  bool any_leaf = false;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    GlobalTensor& operand = sample.operands[i];
    if (operand.type.dtype != DType::kBF16) continue;
    const bool is_leaf = floats.of_operand(i) == FloatRole::kAny;
    if (is_leaf) operand.type.dtype = DType::kF32;
    (is_leaf ? any_leaf : any_data) = true;
  }
  if (any_data && any_leaf) return sample;
  return std::nullopt;
}

}  // namespace

std::vector<KernelCase> kernel_samples(OpKind op, bool only_tiny) {
  std::vector<KernelCase> cases;
  for (const OpSample& sample : op_samples()) {
    if (sample.op != op) continue;
    std::vector<GlobalTensor> operands = sample.values();
    for (GlobalTensor& operand : operands) round_to_type(operand);
    cases.push_back({op, std::move(operands), sample.attributes});
  }
  for (KernelCase& sample : kernel_cases()) {
    if (sample.op == op && !only_tiny) cases.push_back(std::move(sample));
  }
  // Leaves may be f32 among data in bf16.
  for (size_t i = 0, count = cases.size(); i < count; ++i) {
    if (std::optional<KernelCase> mixed = with_full_leaves(cases[i])) cases.push_back(std::move(*mixed));
  }
  return cases;
}

size_t for_each_sample(OpKind op, bool only_tiny, const std::function<void(const RankStep&)>& visit) {
  size_t count = 0;
  for (const KernelCase& sample : kernel_samples(op, only_tiny)) {
    for_each_share(sample, [&](const RankStep& step) {
      ++count;
      visit(step);
    });
  }
  return count;
}

}  // namespace tpc::testing

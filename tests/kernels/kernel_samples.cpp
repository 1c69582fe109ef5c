#include "tests/kernels/kernel_samples.h"

#include <fmt/format.h>

#include "tests/kernels/float_variants.h"
#include "tests/support/op_samples.h"

namespace tpc::testing {

std::vector<KernelCase> kernel_samples(OpKind op, bool only_tiny) {
  std::vector<KernelCase> cases;
  for (const OpSample& sample : op_samples()) {
    if (sample.op != op) continue;
    std::vector<GlobalTensor> operands = sample.values();
    for (GlobalTensor& operand : operands) {
      for (double& value : operand.data) value = static_cast<double>(static_cast<float>(value));
    }
    cases.push_back({op, std::move(operands), sample.attributes});
  }
  for (KernelCase& sample : kernel_cases()) {
    if (sample.op == op && !only_tiny) cases.push_back(std::move(sample));
  }
  return cases;
}

size_t for_each_sample(OpKind op, bool only_tiny,
                       const std::function<void(const RankStep& step, const std::string& text)>& visit) {
  size_t count = 0;
  for (const KernelCase& sample : kernel_samples(op, only_tiny)) {
    for_each_share(sample, [&](const RankStep& share) {
      for (const RankStep& step : float_variants(share)) {
        ++count;
        visit(step, fmt::format("{} as {}", sample.text(), float_text(step)));
      }
    });
  }
  return count;
}

}  // namespace tpc::testing

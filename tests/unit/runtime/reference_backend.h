/// A backend that runs the ops' reference kernels, so that tests of the runtime do not depend on a device's kernels.
#pragma once

#include <memory>
#include <vector>

#include "runtime/host_backend.h"

namespace tpc::testing {

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(LocalStep step) : step_(std::move(step)) {}

  void run(const StepContext& context) override {
    if (step_.op == OpKind::kUpdate) {
      std::vector<double> value = to_double(step_.operands[1]);
      from_double(value, step_.operands[0]);
      return;
    }
    std::vector<std::vector<double>> memory;
    std::vector<ReferenceTensor> operands, results;
    for (const LocalTensor& t : step_.operands) memory.push_back(to_double(t));
    for (const LocalTensor& t : step_.results) {
      memory.emplace_back(static_cast<size_t>(t.region.num_elements()));
    }
    for (size_t i = 0; i < step_.operands.size(); ++i) {
      operands.push_back({step_.operands[i].type, step_.operands[i].region, memory[i].data()});
    }
    for (size_t i = 0; i < step_.results.size(); ++i) {
      results.push_back({step_.results[i].type, step_.results[i].region, memory[operands.size() + i].data()});
    }
    op_def(step_.op).reference({step_.attributes, operands, results, context, step_.is_first_in_group});
    for (size_t i = 0; i < results.size(); ++i) from_double(memory[operands.size() + i], step_.results[i]);
  }

 private:
  static std::vector<double> to_double(const LocalTensor& tensor) {
    std::vector<double> values(static_cast<size_t>(tensor.region.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = tensor.type.dtype == DType::kF32 ? double{tensor.f32()[i]} : static_cast<double>(tensor.i32()[i]);
    }
    return values;
  }
  static void from_double(const std::vector<double>& values, const LocalTensor& tensor) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (tensor.type.dtype == DType::kF32) {
        tensor.f32()[i] = static_cast<float>(values[i]);
      } else {
        tensor.i32()[i] = static_cast<int32_t>(values[i]);
      }
    }
  }
  LocalStep step_;
};

class ReferenceBackend : public HostBackend {
 public:
  std::string_view name() const override { return "reference"; }

 protected:
  std::unique_ptr<Kernel> prepare_step(const LocalStep& step) override {
    return std::make_unique<ReferenceKernel>(step);
  }
};

}  // namespace tpc::testing

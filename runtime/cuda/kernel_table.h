/// What makes the CUDA kernels: one prepare function an op, from kernel_list.def.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "runtime/backend.h"
#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

/// A step's tensors lie in device memory. The kernel issues its work to the queue's stream and waits for nothing.
using PrepareKernel = std::unique_ptr<Kernel> (*)(const LocalStep& step, DeviceQueue& queue);

/// Of ops that a step does to many tensors, each too small to fill the device: one launch for all of them. The steps
/// are of one op, attributes and types may differ, and none reads or writes what another one writes. A single step is a
/// group of one.
using PrepareGroup = std::unique_ptr<Kernel> (*)(std::span<const LocalStep> steps, DeviceQueue& queue);

#define KERNEL(enumerator, stem) std::unique_ptr<Kernel> prepare_##stem(const LocalStep& step, DeviceQueue& queue);
#define GROUP_KERNEL(enumerator, stem) \
  std::unique_ptr<Kernel> prepare_##stem##_group(std::span<const LocalStep> steps, DeviceQueue& queue);
#include "runtime/cuda/kernel_list.def"
#undef GROUP_KERNEL
#undef KERNEL

/// A kernel from a function object run(), which issues the work. What varies from step to step is read on the device.
template <class Run>
std::unique_ptr<Kernel> make_kernel(Run run) {
  class FunctionKernel final : public Kernel {
   public:
    explicit FunctionKernel(Run function) : function_(std::move(function)) {}
    void run(const StepContext& /*context*/) override { function_(); }

   private:
    Run function_;
  };
  return std::make_unique<FunctionKernel>(std::move(run));
}

}  // namespace tpc::cuda

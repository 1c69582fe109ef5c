/// What makes the CUDA kernels: one prepare function an op, from kernel_list.def.
#pragma once

#include <memory>
#include <utility>

#include "runtime/backend.h"
#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

/// A step's tensors lie in device memory. The kernel issues its work to the queue's stream and waits for nothing.
using PrepareKernel = std::unique_ptr<Kernel> (*)(const LocalStep& step, DeviceQueue& queue);

#define KERNEL(enumerator, stem) std::unique_ptr<Kernel> prepare_##stem(const LocalStep& step, DeviceQueue& queue);
#include "runtime/cuda/kernel_list.def"
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

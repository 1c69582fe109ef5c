/// A segment of a training step as a CUDA graph.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "runtime/cuda/device_queue.h"
#include "runtime/cuda/event.h"

namespace tpc::cuda {

/// The first run issues the work as it is, so that libraries make what they make once; the second captures it; later
/// ones replay what was captured.
class StepGraph {
 public:
  StepGraph() = default;
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// `is_eager`: the work is issued as it is.
  void run(DeviceQueue& compute, DeviceQueue& communication, bool is_eager, const std::function<void()>& issue);

 private:
  void issue_joined(DeviceQueue& compute, DeviceQueue& communication, const std::function<void()>& issue);
  void capture(DeviceQueue& compute, DeviceQueue& communication, const std::function<void()>& issue);

  bool has_run_ = false;
  cudaGraphExec_t graph_ = nullptr;
  Event begin_;
  Event end_;
};

}  // namespace tpc::cuda

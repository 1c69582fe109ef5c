/// From a graph to what cuDNN has compiled for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cuda/cudnn/attention_graph.h"

namespace tpc::cuda::cudnn {

/// Which device a plan is for: that of a handle, or one that is described.
class PlanDevice {
 public:
  /// The handle outlives it.
  explicit PlanDevice(cudnnHandle_t handle) : handle_(handle) {}
  /// By cuDNN's own JSON of a device's properties; no GPU is needed then. Throws CudnnError.
  PlanDevice(const Library& library, const std::string& properties);

  /// Sets the attribute when it has the one or the other.
  void set_handle(Descriptor& descriptor, cudnnBackendAttributeName_t name) const;
  void set_properties(Descriptor& descriptor, cudnnBackendAttributeName_t name) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<Descriptor> properties_;
};

/// One kernel or a few, ready to run.
struct ExecutionPlan {
  Descriptor descriptor;
  int64_t workspace_bytes = 0;
};

struct PlanChoice {
  std::optional<ExecutionPlan> plan;
  std::string refusal;  ///< without a plan: what the library says
};

/// Attention or its gradient by the first of the library's proposals, best first, that compiles for the device,
/// computes the same bits every time and needs at most `most_workspace` bytes. Throws CudnnError where the library
/// fails instead of refusing.
PlanChoice plan_attention(const Library& library, const CudnnAttention& asked, const PlanDevice& device,
                          int64_t most_workspace);

}  // namespace tpc::cuda::cudnn

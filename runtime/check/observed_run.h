/// A run of a plan whose memory lies open: after every plan step each rank's results can be looked at and set.
#pragma once

#include <functional>

#include "compiler/plan/plan.h"
#include "runtime/check/elements.h"
#include "runtime/executor.h"
#include "runtime/host_tensor.h"

namespace tpc {

class ObservedRun {
 public:
  virtual ~ObservedRun() = default;

  virtual const Plan& plan() const = 0;
  /// What `rank` holds of plan().tensors[tensor], in the run's own memory. A tensor that does not persist has it from
  /// the step that makes it to the last that reads it.
  virtual RankPart part(int64_t rank, int tensor) const = 0;
  /// Twice the largest relative error of one rounding of a float tensor of type `dtype`: 2^-23 for f32, 2^-7 for bf16,
  /// 2^-52 for what is double.
  virtual double epsilon(DType dtype) const = 0;
  /// Runs the next training step. The ranks may call `after` at the same time, each in its own thread.
  virtual void run_step(const Batch& batch, const StepObserver& after) = 0;
};

/// Runs a plan, as a run of the wanted precision.
using MakeRun = std::function<std::unique_ptr<ObservedRun>(const Plan& plan)>;

}  // namespace tpc

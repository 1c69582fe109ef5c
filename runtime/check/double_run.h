/// A run in double: the ops' reference kernels on every rank, one plan step after the other, in one thread. So slow
/// that it is for small models, and so exact that what still differs is no rounding.
#pragma once

#include <memory>
#include <vector>

#include "compiler/plan/rank_plan.h"
#include "runtime/check/observed_run.h"

namespace tpc {

/// Memory is laid out as the plan says, with a double for each of the smallest elements: a plan that reuses a buffer
/// too early does so here, too.
class DoubleRun final : public ObservedRun {
 public:
  /// Parameters and states start as in training, see initial_values.h.
  DoubleRun(Plan plan, uint64_t seed);

  const Plan& plan() const override { return plan_; }
  RankPart part(int64_t rank, int tensor) const override;
  double epsilon(DType dtype) const override;
  void run_step(const Batch& batch, const StepObserver& after) override;

 private:
  double* address(int64_t rank, int tensor) const;
  void fill(int64_t rank, int tensor);
  void run_kernel(const RankPlan& rank, const RankStep& rank_step);
  void run_collective(const RankStep& rank_step);
  /// What `rank` gets of a collective's result out of its group's operands.
  std::vector<double> exchanged(const RankPlan& rank, const RankStep& rank_step) const;

  Plan plan_;
  int64_t plan_element_;
  StepContext context_;
  std::vector<RankPlan> ranks_;
  std::vector<std::unique_ptr<double[]>> arenas_;  // one a rank
};

}  // namespace tpc

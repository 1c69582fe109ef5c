/// What every tensor of a training step must be, and how far rounding alone may move it: the model on one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/check/observed_run.h"

namespace tpc {

/// Runs the step twice. The second time every operand of every step is off by one rounding: each element is the first
/// run's, times 1 + epsilon or 1 - epsilon by chance. How far a result is then from the first run's says how its step
/// passes rounding on, whatever its op; it holds for that step alone, since the next one starts from the first run's
/// values again.
///
/// For a tensor whose elements are sums of n terms
///   tolerance = 4 sqrt(n) (noise + epsilon * magnitude)
/// with the largest difference of the two runs and the largest element. sqrt(n) is how roundings of n additions in
/// another order grow beyond those of the terms. Kernels add in f32 whatever their operands are: where operands are
/// bf16, and off by a rounding of bf16, the noise is scaled to one of f32, unless they are rounded parts of a sum. A
/// tensor that is itself bf16 is rounded once more, and a sum near the middle of two numbers to the one or the other: 2
/// epsilon of bf16 * magnitude on top.
class ModelStep {
 public:
  /// Both runs are of one and the same plan on one rank, and outlive this object.
  ModelStep(ObservedRun& exact, ObservedRun& perturbed);

  const Plan& plan() const { return exact_.plan(); }

  /// Runs training step `step`. The second run starts from the first one's parameters and states.
  void run(uint64_t step, const Batch& batch, const StepObserver& progress);

  /// A tensor as its plan step made it, or as it was before the training step when it persists; whole.
  const Values& value(int tensor) const { return values_[static_cast<size_t>(tensor)]; }
  /// A parameter or state as it is now.
  Values at_rest(int tensor) const { return copy_of(exact_.part(0, tensor).elements); }

  /// Terms of the sum that each element of a tensor is, at most; 1 when its step adds nothing up.
  int64_t num_terms(int tensor) const { return num_terms_[static_cast<size_t>(tensor)]; }

  /// How a plan makes a tensor.
  struct Way {
    int64_t num_terms = 1;
    /// Where the tensor is the sum of parts, the largest sum of magnitudes of the ranks' parts.
    double scale = 0;
    /// It is made of parts of a sum that were rounded to bf16, each by itself.
    bool has_rounded_parts = false;
  };
  /// What value() may be missed by by a plan that makes the tensor so.
  double tolerance(int tensor, const Way& way) const;

  /// Bytes that both runs and the tensors of the step take, of `element` bytes each.
  static double bytes(const Plan& plan, int64_t element);

 private:
  void keep(int tensor);
  void measure(int step);
  void perturb(int tensor);

  ObservedRun& exact_;
  ObservedRun& perturbed_;
  uint64_t step_ = 0;
  std::vector<int64_t> num_terms_;
  std::vector<Values> values_;
  std::vector<double> noise_;
  /// Of the roundings of bf16 where operands are bf16: what kernels' own roundings make is that part of it.
  std::vector<double> own_part_;
  std::vector<double> magnitude_;
};

/// Bytes of the smallest element in a plan.
int64_t smallest_element(const Plan& plan);
/// Bytes of one rank's arena in a run: as the plan says, or, with 8, a double for each of its smallest elements.
double run_bytes(const Plan& plan, int64_t element);

/// A parameter or state: what a training step leaves to the next one.
bool is_learned(const PlanTensor& tensor);

/// Terms that `step` adds up for one element of its result number `result`, at most: the sizes of the indices of an
/// operand that the result lacks, and of those that no placement may divide, for the op mixes them.
int64_t count_terms(const Plan& plan, const PlanStep& step, size_t result);

}  // namespace tpc

/// What a check tells: a table when all agrees, the first difference when not. Makes text, prints nothing.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "runtime/check/plan_comparison.h"

namespace tpc {

/// The plans, and how their tensors belong together (match_tensors).
struct ComparedPlans {
  const Plan& plan;
  const Plan& one_rank;
  std::vector<int> match;
};

/// What agreed, added up over training steps.
class CheckSummary {
 public:
  /// `epsilon` as in ObservedRun.
  CheckSummary(const ComparedPlans& plans, double epsilon);

  void add_step(const std::vector<CheckedTensor>& results);

  /// One row a kind (outputs, activations, gradients, optimizer, weights): tensors, elements, the largest difference as
  /// a part of its tolerance and the tensor that has it. Then tensors that only one of the plans has, and a verdict.
  std::string text() const;

 private:
  struct Row {
    std::string kind;
    int64_t num_tensors = 0;
    int64_t num_elements = 0;
    double largest = 0;
    std::string tensor;
  };

  size_t kind_of(const CheckedTensor& checked) const;

  const ComparedPlans& plans_;
  double epsilon_;
  int64_t num_steps_ = 0;
  std::vector<size_t> kinds_;  // by tensor of the one-rank plan
  std::array<Row, 5> rows_;
};

/// The message about the results that are not good, of training step `step`: the first in program order with its step
/// in `file` (of the form that write_plan gives), the collective that feeds it, and the next few by name.
Diagnostic difference_report(const ComparedPlans& plans, const std::vector<CheckedTensor>& results, uint64_t step,
                             double epsilon, const std::string& file);

/// The nearest collective before plan step `step` that its operands come from, by steps on the way; the later one of
/// several, -1 for none.
int feeding_collective(const Plan& plan, int step);

}  // namespace tpc

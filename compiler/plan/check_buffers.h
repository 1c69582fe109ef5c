/// Part of check_plan: does every step still find what it reads?
#pragma once

#include "compiler/plan/plan.h"
#include "compiler/plan/plan_issues.h"

namespace tpc {

/// Half-open ranges of time in which tensors are needed: step numbers.
struct LiveRange {
  /// The step that makes the tensor; -1 for inputs, parameters and states.
  int begin = -1;
  /// The last step that reads it; the number of steps when it must outlive them all.
  int end = -1;
};

/// One a tensor. A parameter or state that an update replaces in place (the new value lies at the same offset) lives
/// until it is read last, and the new value to the end.
std::vector<LiveRange> live_ranges(const Plan& plan);

/// No tensor is written over another that is still needed, unless its op works in place on it or only changes its
/// shape. A sweep over the steps: the buffers in use never overlap, so each write looks at its neighbours only.
void check_buffers(const Plan& plan, PlanIssues& issues);

}  // namespace tpc

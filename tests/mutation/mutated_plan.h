/// Faults of a plan held against the static proof, and what it does not refuse against exact numbers.
#pragma once

#include <string>

#include "compiler/frontend/model.h"
#include "compiler/verify/value_numbers.h"
#include "tests/mutation/plan_faults.h"

namespace tpc::testing {

struct FaultCounts {
  int faults = 0;
  int same = 0;      ///< accepted, and shown to be the same plan
  int executed = 0;  ///< refused, and seen to leave other numbers
};

/// One plan, and what its faults are held against.
class MutatedPlan {
 public:
  /// The plan itself is proved and leaves the model's numbers, or the test ends.
  MutatedPlan(const Model& model, Plan plan);

  /// Every `stride`-th fault, from the `first` on; of the refused ones every `executed`-th is executed. A fault that is
  /// neither refused nor the same plan, or that is refused and leaves the model's numbers, fails the test.
  void check(const std::string& name, int stride, int first, int executed, FaultCounts& counts) const;

 private:
  bool is_refused(const Plan& faulty) const;
  bool numbers_differ(const Plan& faulty) const;

  Graph step_;
  verify::ValueNumbers values_;
  Plan one_rank_;
  Plan plan_;
};

}  // namespace tpc::testing

/// Whether the ranges that ranks hold of a step's tensors are those that its formula needs, or its move moves.
#pragma once

#include <string>
#include <vector>

#include "compiler/verify/held_range.h"
#include "compiler/verify/op_meaning.h"

namespace tpc::verify {

struct StepRanges {
  /// What is wrong, with a rank and what it holds; empty when nothing is.
  std::string flaw;
  /// Per result: mesh axes whose ranks each add their own part of a sum that the op makes.
  std::vector<AxisSet> summed;
};

/// For a step with a formula.
StepRanges op_ranges(const Plan& plan, const PlanStep& step, const OpMeaning& meaning);

/// For a collective or local move. `summed` is empty: what becomes of sums follows from the kind of move.
StepRanges move_ranges(const Plan& plan, const PlanStep& step, AxisSet axes);

}  // namespace tpc::verify

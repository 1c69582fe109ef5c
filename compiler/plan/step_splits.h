/// What the work of a step may be split by, in the words of the model.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/model_words.h"
#include "compiler/plan/plan.h"

namespace tpc {

struct StepSplit {
  std::string by;  ///< "ffn"
  /// Of each operand and result whether it is split then; operands that are not are whole.
  std::vector<bool> operands;
  std::vector<bool> results;
  /// A result that is not split holds a part of a sum then, or of a maximum.
  bool leaves_part = false;
  bool is_maximum = false;
  /// The axes that split it in this plan, "tp"; "" none.
  std::string used_on;
  /// Why no axis of the mesh may: "4 heads, 8 ranks"; "" some may.
  std::string refused;
};

/// Empty when the op has no rule (moves, outputs) or nothing of it may be split.
std::vector<StepSplit> step_splits(const Plan& plan, const PlanStep& step, const ModelWords& words);

}  // namespace tpc

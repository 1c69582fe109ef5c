/// What a layer's main step does on the mesh, in the words of the field.
#pragma once

#include <string>

#include "compiler/plan/model_words.h"
#include "compiler/plan/plan.h"
#include "compiler/sharding/sharding_rule.h"

namespace tpc {

/// "column-parallel (heads)", "row-parallel (ffn)", "vocabulary-parallel", "by heads", "sequence-parallel",
/// "replicated"; joined by ", " when several axes other than dp are used. `step` must be allowed by its op's rule.
std::string layer_role(const Plan& plan, const PlanStep& step, const ModelWords& words);

/// The name of the dimension that a factor of the step's rule splits, from the first tensor that has it (weights first:
/// their dimensions are the least ambiguous); else the factor's letter.
std::string factor_name(const Plan& plan, const PlanStep& step, const Factor& factor, const ModelWords& words);

}  // namespace tpc

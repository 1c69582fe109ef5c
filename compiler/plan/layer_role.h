/// What a layer's main step does on the mesh, in the words of the field.
#pragma once

#include <string>

#include "compiler/plan/model_words.h"
#include "compiler/plan/plan.h"

namespace tpc {

/// "column-parallel (heads)", "row-parallel (ffn)", "vocabulary-parallel", "by heads", "sequence-parallel",
/// "replicated"; joined by ", " when several axes other than dp are used. `step` must be allowed by its op's rule.
std::string layer_role(const Plan& plan, const PlanStep& step, const ModelWords& words);

}  // namespace tpc

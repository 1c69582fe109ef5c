/// The plan of a model on one rank: what a plan on many is compared with when both are run.
#pragma once

#include "compiler/ir/optimizer_settings.h"
#include "compiler/plan/plan.h"

namespace tpc {

/// Every tensor is whole and its value is known by the same name as in any other plan of the model; there are no
/// collectives, and where the model computes in bf16 no sum is merged with its cast.
Plan one_rank_plan(Graph model, const OptimizerSettings& optimizer);

}  // namespace tpc

/// plan-memory: an offset in the rank's arena for every tensor of a plan, the same on all ranks.
///
/// Inputs, parameters and states persist and lie at the start. Every other tensor lives from the step that makes it to
/// the last step that reads it; buffers are reused by best fit among the free ranges. A reshape is a view of its
/// operand; a result takes over the buffer of an operand that dies there where the op allows it (OpDef::inplace); an
/// optimizer's result that is written back to its parameter is made in the parameter's place.
///
/// Last, since only the final order gives live ranges.
#pragma once

#include "compiler/plan/plan.h"

namespace tpc {

void plan_memory(Plan& plan);

}  // namespace tpc

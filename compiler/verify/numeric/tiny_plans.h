/// A plan and its model's one-rank plan at the smallest shapes that keep their structure.
#pragma once

#include "compiler/plan/plan.h"

namespace tpc::verify {

/// The same steps on the same ranks, with smaller tensors: sizes, units of placements and the attributes that carry
/// sizes are smaller in proportion. Offsets and bytes are still those of the plan, which say what lies over what.
struct TinyPlans {
  Plan one_rank;
  Plan plan;
};

/// Shrinks both together, linked by the names of inputs, parameters and states. A dimension that is divided over n
/// ranks keeps its remainder modulo n and two indices for each rank (one when n is above 4), others keep two; a merged
/// dimension is the product of its parts. What cannot be smaller stays as it is: dimensions of which a slice takes a
/// range that shares no divisor with them, and those that reshapes cut in ways that do not nest.
///
/// Throws Flaw when the shapes of a step do not fit together or the plan's leaves are not the model's. Both
/// plans are sound (check_plan), but for their placements.
TinyPlans tiny_plans(const Plan& one_rank, const Plan& plan);

/// Multiplications of executing the plan on all its ranks, about.
double numeric_work(const Plan& plan);

}  // namespace tpc::verify

/// Which steps and leaves of two plans have other attributes.
#pragma once

#include <vector>

#include "compiler/plan/plan_difference.h"

namespace tpc {

/// One a changed attribute ("scale = 0.25"), of steps by the name of their first result and of parameters, states and
/// inputs by their own. What moves do, and what follows from other shapes, does not count.
std::vector<TensorChange> attribute_changes(const Plan& before, const Plan& after);

}  // namespace tpc

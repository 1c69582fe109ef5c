/// Classes of a plan's tensors and steps, held against every member.
#pragma once

#include "compiler/plan/plan_classes.h"

namespace tpc::verify {

/// classify(), which the programs of ranks are made with, too: so that a mistake in it cannot hide what it does, every
/// tensor and step is seen to be what the example of its class is. Throws InternalError when one is not.
PlanClasses proved_classes(const Plan& plan);

}  // namespace tpc::verify

/// The plan as versioned JSON: canonical order, byte-identical for identical input on any machine.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace tpc {

std::string write_plan(const Plan& plan);

/// Reads and checks a plan (see check_plan.h). `file` is its name in messages. A plan edited by hand that is not sound
/// is a UserError with the places; an unknown version is refused with the versions that load.
Plan read_plan(const std::string& text, const std::string& file);

}  // namespace tpc

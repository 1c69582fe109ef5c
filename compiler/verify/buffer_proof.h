/// The proof that every step finds in memory what it reads.
#pragma once

#include <optional>

#include "compiler/plan/plan.h"
#include "compiler/verify/flaw.h"

namespace tpc::verify {

/// nullopt when it is proved that every buffer lies in the arena and holds the fullest rank's part, that no step reads
/// bytes which another tensor was written over, and that after the step every input, parameter and state lies whole in
/// its place. A result may lie on an operand that it replaces element by element (OpMeaning::over), a reshape on what
/// it reshapes. The steps are the model's (find_step_flaw).
std::optional<Flaw> find_buffer_flaw(const Plan& plan);

}  // namespace tpc::verify

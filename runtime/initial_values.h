/// How parameters and optimizer states start.
#pragma once

#include <cstdint>

#include "compiler/lowering/local_step.h"
#include "compiler/plan/plan.h"

namespace tpc {

/// Fills this rank's part of a parameter or state. Attribute "init" is "normal" (times "std"), "uniform" (in
/// (-bound, bound)), "zeros", "ones" or "constant" ("value"); without it the tensor starts at zero. Element i (global,
/// row-major) is a function of (seed, tensor name, i) only: random_normal(philox_key(seed, name), 0, i) or
/// uniform_from_word(random_word(philox_key(seed, name), 0, i)). So all meshes start from the same bits.
void fill_initial(const PlanTensor& tensor, uint64_t seed, const LocalTensor& local);

}  // namespace tpc

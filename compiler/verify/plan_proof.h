/// The static proof that a plan computes its model.
#pragma once

#include <optional>

#include "compiler/plan/plan.h"
#include "compiler/verify/flaw.h"
#include "compiler/verify/value_numbers.h"

namespace tpc::verify {

/// nullopt when it is proved that on every rank every output, gradient and updated weight of a step is the model's,
/// whole where it must be, and nothing is added up twice or left out. `plan` is sound (check_plan). That buffers hold
/// what their tensors are, and that ranks run what the placements say, are proofs of their own (find_buffer_flaw,
/// RankProof). Nothing is executed; neither the op rules by which plans are made are asked nor what a plan claims to be
/// partial sums.
///
/// For every tensor it is worked out which value of the model it is (ValueNumbers) and along which mesh axes the ranks
/// hold parts of a sum; ranges follow from the placements, and are held against the formulas (OpMeaning). Ranges are
/// compared at every position of the axes that divide them: all ranks are looked at, none is taken for another.
std::optional<Flaw> find_step_flaw(const ValueNumbers& model, const Plan& plan);

}  // namespace tpc::verify

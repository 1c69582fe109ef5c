/// What the ranks of a group have after a collective.
#pragma once

#include <span>
#include <vector>

#include "compiler/ir/op_kind.h"
#include "compiler/verify/numeric/op_function.h"
#include "compiler/verify/numeric/rank_memory.h"

namespace tpc::verify {

/// The part `region` of what the collective makes of the members' parts, in the group's order: for reductions the sum
/// ("max": the largest) of all of them, else the first that has the element. Throws OpFault when parts do not have it.
Part collective_result(OpKind op, const Attributes& attributes, std::span<const Part* const> parts,
                       const Region& region);

}  // namespace tpc::verify

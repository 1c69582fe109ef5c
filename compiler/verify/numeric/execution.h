/// A plan, or the programs that its ranks are given, executed in exact numbers.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/plan/rank_plan.h"
#include "compiler/verify/numeric/leaf_values.h"
#include "compiler/verify/numeric/rank_memory.h"

namespace tpc::verify {

/// What a training step leaves behind, by tensor of the plan and rank.
struct Executed {
  /// As they were made, of the tensors asked for; empty regions where no step made them.
  std::vector<std::vector<Part>> made;
  std::vector<std::vector<bool>> is_made;
  /// In the end, of inputs, parameters and states; not there where something else lies over them.
  std::vector<std::vector<Part>> left;
  std::vector<std::vector<bool>> is_left;
};

/// Every rank runs its program; a collective is made when all of its group have come to it. `keeps` says of each tensor
/// whether `made` is wanted. Throws Flaw where a rank cannot go on: it reads what it does not hold, or the
/// members of a group do not make the same collective.
///
/// The programs may be any: they are held against the plan's tensors before anything is read.
Executed execute(const Plan& plan, std::span<const RankPlan> programs, const LeafValues& leaves, uint64_t seed,
                 const std::vector<bool>& keeps);

}  // namespace tpc::verify

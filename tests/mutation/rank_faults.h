/// Faults in the expanded program of one rank: each kind at every place where it can be made.
#pragma once

#include <functional>
#include <string>

#include "compiler/plan/rank_plan.h"

namespace tpc::testing {

/// Told every altered program; `what` says kind and place.
using VisitProgram = std::function<void(const RankPlan& altered, const std::string& what)>;

/// Ranges a step too long, too short or shifted (an uneven shard off by one, a neighbour's shard, rows of padding, a
/// position, mask or vocabulary offset that is not the rank's); steps left out, doubled, in another order; moves among
/// other ranks, too few, in another order, with other parts or bytes. `world`: ranks of the mesh.
void make_rank_faults(const RankPlan& program, int64_t world, const VisitProgram& visit);

/// The program's own copy of the list of steps, to be altered.
std::vector<RankStep>& own_steps(RankPlan& program);

}  // namespace tpc::testing

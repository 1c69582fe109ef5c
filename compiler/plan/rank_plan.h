/// One rank's program: the plan with every region, group and receive worked out. A pure function of (plan, rank).
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc {

struct RankStep {
  int step = 0;  ///< index into Plan::steps
  std::vector<Region> operands;
  std::vector<Region> results;
  /// Collectives and mask only: the ranks of the group in the order of their blocks, and the own position in it.
  std::vector<int64_t> group;
  int64_t index_in_group = 0;
  /// Collectives only: what each member of the group holds before and after, and the bytes this rank receives.
  std::vector<Region> group_inputs;
  std::vector<Region> group_outputs;
  int64_t received_bytes = 0;
};

struct RankPlan {
  int64_t rank = 0;
  std::vector<int64_t> coordinate;
  std::vector<RankStep> steps;
};

RankPlan rank_plan(const Plan& plan, int64_t rank);

}  // namespace tpc

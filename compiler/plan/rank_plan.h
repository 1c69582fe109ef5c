/// One rank's program: the plan with every region, group and receive worked out. A pure function of (plan, rank).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/plan_classes.h"

namespace tpc {

/// The ranks that a collective or mask works among.
struct MoveGroup {
  /// In the order of their blocks.
  std::vector<int64_t> ranks;
  /// Of collectives only: what each member holds before and after.
  std::vector<Region> inputs;
  std::vector<Region> outputs;
  bool operator==(const MoveGroup&) const = default;
};

/// One rank's part of a collective or mask.
struct RankMove {
  std::shared_ptr<const MoveGroup> group;
  /// Own position in the group.
  int64_t index = 0;
  int64_t received_bytes = 0;
};

struct RankStep {
  int step = 0;   ///< index into Plan::steps
  int move = -1;  ///< index into RankPlan::moves; -1: neither collective nor mask
  bool operator==(const RankStep&) const = default;
};

/// What is equal on many ranks, or for many tensors and steps, is held once, so that thousands of ranks of a long plan
/// can be looked at.
struct RankPlan {
  int64_t rank = 0;
  std::vector<int64_t> coordinate;
  /// Distinct parts that this rank holds of tensors.
  std::vector<Region> regions;
  /// Per tensor of the plan, an index into `regions`.
  std::shared_ptr<const std::vector<int>> region_of;
  std::vector<RankMove> moves;
  /// What runs, in this order.
  std::shared_ptr<const std::vector<RankStep>> steps;

  const Region& region(int tensor) const {
    return regions[static_cast<size_t>((*region_of)[static_cast<size_t>(tensor)])];
  }
  /// nullptr: neither collective nor mask.
  const RankMove* move(const RankStep& step) const {
    return step.move < 0 ? nullptr : &moves[static_cast<size_t>(step.move)];
  }
  /// In one training step.
  int64_t received_bytes() const;
};

/// Makes the programs of a plan's ranks, which share what is equal. The plan must outlive this.
class RankPrograms {
 public:
  explicit RankPrograms(const Plan& plan);
  /// `rank` is one of the mesh.
  RankPlan of(int64_t rank);

 private:
  std::shared_ptr<const MoveGroup> group_of(int step_class, const Move& move, int64_t rank);

  const Plan& plan_;
  PlanClasses classes_;
  std::shared_ptr<const std::vector<int>> region_of_;
  std::shared_ptr<const std::vector<RankStep>> steps_;
  /// Classes of steps that are collectives or masks, in the order of RankPlan::moves.
  std::vector<int> move_classes_;
  std::vector<Move> moves_;
  /// By class of steps and the group's first rank.
  std::map<std::pair<int, int64_t>, std::shared_ptr<const MoveGroup>> groups_;
};

/// One program alone.
RankPlan rank_plan(const Plan& plan, int64_t rank);

}  // namespace tpc

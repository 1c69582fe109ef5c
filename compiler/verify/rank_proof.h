/// The proof that the expanded program of a rank is the plan's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/rank_plan.h"
#include "compiler/verify/flaw.h"
#include "compiler/verify/held_range.h"

namespace tpc::verify {

/// Holds programs of ranks against the plan, with the verifier's own geometry: every tensor has the range that its
/// placement gives this rank; the steps run in the plan's order, so that the collectives of each group come in one
/// order on all its members and no rank waits for one that waits for it; groups, the own position in them, what their
/// members hold and what is received are those that follow from mesh and placements.
///
/// Every rank is looked at. What ranks share (the order of steps, groups) is looked at once, and known again by its
/// address; a rank with a copy of its own has that looked at.
class RankProof {
 public:
  /// `plan` is sound (check_plan) and outlives this.
  explicit RankProof(const Plan& plan);

  /// The message goes on after "rank 12 ".
  std::optional<Flaw> find_flaw(const RankPlan& program);

 private:
  /// A collective or mask: its axes, and its tensors before and after.
  struct Exchange {
    OpKind op = OpKind::kAllReduce;
    AxisSet axes = 0;
    int before = 0;  ///< index into cuts_
    int after = 0;
    int64_t element_bytes = 0;
    auto operator<=>(const Exchange&) const = default;
  };

  std::string described(int step) const;
  Region held_by(int cuts, std::span<const int64_t> coordinate) const;
  int64_t received_bytes(const Exchange& exchange, std::span<const int64_t> coordinate, int64_t index,
                         int64_t members) const;

  void check_regions(const RankPlan& program);
  void check_order(const RankPlan& program);
  void check_moves(const RankPlan& program);
  void check_group(int step, int exchange, std::span<const int64_t> coordinate,
                   const std::shared_ptr<const MoveGroup>& group);

  const Plan& plan_;
  std::vector<std::vector<DimCuts>> cuts_;  ///< distinct ones
  std::vector<int> cuts_of_;                ///< per tensor
  std::vector<Exchange> exchanges_;         ///< distinct ones
  std::vector<int> exchange_of_;            ///< per step; -1: none

  // What has been looked at; holding it keeps its address from being used again.
  std::shared_ptr<const std::vector<int>> known_region_of_;
  std::shared_ptr<const std::vector<RankStep>> known_steps_;
  /// Distinct (cuts, region of the program) with the first such tensor, and (exchange, move) with the first such step.
  std::map<std::pair<int, int>, int> regions_;
  std::map<std::pair<int, int>, int> moves_;
  /// By exchange and first rank.
  std::map<std::pair<int, int64_t>, std::shared_ptr<const MoveGroup>> known_groups_;
};

}  // namespace tpc::verify

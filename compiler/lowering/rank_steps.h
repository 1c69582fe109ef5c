/// What a rank hands to its device: the steps of the plan with addresses, as kernels and collectives, and what waits
/// for what.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/lowering/collective_step.h"
#include "compiler/lowering/step_order.h"
#include "compiler/plan/rank_plan.h"

namespace tpc {

/// Some of a plan's steps, [first, end), that run as one.
struct RankUnit {
  int first = 0;
  int end = 0;
  /// What one kernel does, in order; empty for leaves, outputs, collectives, and for updates that were made in place.
  std::vector<LocalStep> kernel;
  /// The steps of the plan that `kernel` does, one each.
  std::vector<int> kernel_steps;
  std::optional<CollectiveStep> collective;
  DeviceQueueKind queue = DeviceQueueKind::kCompute;
  /// Units of the other queue, on the same side of RankUnits::first_change, that must be done first; by index.
  std::vector<size_t> waits_for;
  /// A unit of the other queue waits for this one.
  bool is_awaited = false;
};

struct RankUnits {
  /// In the order of the plan.
  std::vector<RankUnit> units;
  /// The first that changes what persists; no unit reaches over it, and both queues have done what lies before it when
  /// it is issued. Named outputs are looked at then.
  size_t first_change = 0;
};

/// How many of the next steps a device's kernel does together, at least 1.
using NumTogether = std::function<size_t(std::span<const LocalStep> steps)>;

/// This rank's part of plan.tensors[tensor] in an arena at `arena`.
LocalTensor local_tensor(const Plan& plan, const RankPlan& program, int tensor, std::byte* arena);

/// `program` is one of `plan`, with the steps in its order. Without `num_together` every step is a unit of its own.
RankUnits lower_rank(const Plan& plan, const RankPlan& program, std::byte* arena, const NumTogether& num_together = {});

/// `first_change` in steps of the plan.
int first_changing_step(const Plan& plan);

}  // namespace tpc

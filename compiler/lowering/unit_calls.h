/// The calls of one unit of a rank.
#pragma once

#include <string>
#include <vector>

#include "compiler/lowering/device_calls.h"
#include "compiler/lowering/rank_steps.h"

namespace tpc {

/// Where the arena is taken to lie: as aligned as any memory of a device. Nothing is read or written there.
inline constexpr uintptr_t kListedArena = uintptr_t{1} << 40;

/// Adds a copy of `bytes`.
void add_copy(DeviceUnit& unit, DeviceQueueKind queue, CallTensor from, CallTensor to, int64_t bytes);

/// Of units that were lowered with the arena there, and with num_together(). In their order, since collectives are
/// counted.
class UnitCalls {
 public:
  UnitCalls(const Plan& plan, const RankPlan& program) : plan_(plan), program_(program) {}

  /// What does the unit's work; not the events between queues.
  void add_to(DeviceUnit& unit, const RankUnit& lowered);

  /// This rank's part of plan.tensors[index].
  CallTensor tensor(int index) const;

 private:
  const PlanStep& step(int i) const { return plan_.steps[static_cast<size_t>(i)]; }
  std::string name(int tensor) const { return plan_.tensors[static_cast<size_t>(tensor)].name; }
  LocalTensor local(int tensor) const;
  /// Of a step's operands or results.
  std::vector<CallTensor> named(const std::vector<LocalTensor>& tensors, const std::vector<int>& indices) const;
  /// The tensor of the unit's steps that lies there: of those that are written the last one to be, of others the first.
  CallTensor find(const RankUnit& lowered, const LocalTensor& tensor, bool is_written, std::string role) const;

  void add_kernel(DeviceUnit& unit, const RankUnit& lowered);
  void add_product(DeviceUnit& unit, const RankUnit& lowered, const FusedMatmul& product);
  void add_collective(DeviceUnit& unit, const CollectiveStep& collective);

  const Plan& plan_;
  const RankPlan& program_;
  int64_t num_collectives_ = 0;
};

}  // namespace tpc

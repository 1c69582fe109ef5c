/// Which steps of a plan a device may run side by side: kernels in one queue, collectives in another.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc {

/// A device runs what lies in one queue in the order of the plan.
enum class DeviceQueueKind : uint8_t { kCompute, kCommunication };

/// "compute", "communication".
std::string_view to_string(DeviceQueueKind queue);

struct OrderedStep {
  DeviceQueueKind queue = DeviceQueueKind::kCompute;
  /// The step of the other queue that must be done first (and with it all before that one there); -1: none that an
  /// earlier step of this queue has not waited for.
  int waits_for = -1;
  /// A later step of the other queue waits for this one.
  bool is_awaited = false;
  bool operator==(const OrderedStep&) const = default;
};

/// One a step of the plan. A step waits for those of the other queue that write what it reads or writes, or read what
/// it writes: by bytes of the arena, since buffers are used again. The same for every rank.
std::vector<OrderedStep> order_steps(const Plan& plan);

}  // namespace tpc

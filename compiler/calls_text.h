/// The calls of a rank's training step on a GPU, for people and for programs.
#pragma once

#include <functional>
#include <string>

#include "compiler/lowering/device_calls.h"
#include "compiler/plan/plan.h"

namespace tpc {

/// Which units are told.
using CallsFilter = std::function<bool(const DeviceUnit& unit)>;

/// Blocks of layers that differ by their number only are told once unless `all_blocks`.
std::string calls_text(const Plan& plan, const DeviceCalls& calls, const CallsFilter& filter, bool all_blocks);
/// Format "tpc-calls", version 1.
std::string calls_json(const Plan& plan, const DeviceCalls& calls, const CallsFilter& filter);

}  // namespace tpc

/// How much of a GPU's memory a plan takes.
#pragma once

#include <vector>

#include "compiler/plan/report.h"

namespace tpc {

/// Of the rank, among those of the loads (all ranks, or some that stand for all), that needs most. Lowers the plan once
/// for every set of local shapes.
DeviceMemoryNeed device_memory_need(const Plan& plan, const std::vector<RankLoad>& ranks);

}  // namespace tpc

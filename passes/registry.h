/// The table of passes.
#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace tpc {

/// In pipeline order.
std::span<const PassInfo> all_passes();
/// What works on the plan once the graph is scheduled (passes/plan_memory.h); --print-after knows it by this name.
inline constexpr std::string_view kPlanMemoryName = "plan-memory";
inline constexpr std::string_view kPlanMemorySummary = "on the plan: an offset in the arena for every tensor";

/// nullptr when no pass has that name.
const PassInfo* find_pass(std::string_view name);

/// Names of the strategies (passes/strategies), for --strategy.
std::vector<std::string> strategy_names();

}  // namespace tpc

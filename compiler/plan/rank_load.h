/// Loads of ranks: memory, arithmetic and what each receives.
#pragma once

#include <vector>

#include "compiler/plan/plan_classes.h"
#include "compiler/plan/report.h"

namespace tpc {

/// Ranks at which every quantity of a report reaches its extremes, with the number of ranks that each stands for.
std::vector<RankLoad> sample_ranks(const Plan& plan, const PlanClasses& classes);

/// Fills everything but received_bytes.
void add_memory_and_work(const Plan& plan, const PlanClasses& classes, std::vector<RankLoad>& ranks);

}  // namespace tpc

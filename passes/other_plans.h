/// Other plans of a model, each one change away from the way in which a plan was asked for.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/report.h"
#include "passes/pass.h"

namespace tpc {

struct OtherPlan {
  std::string change;  ///< as the user would write it: "--sequence-parallel", ""shard": "row" on block0.fc2"
  Plan plan;
  Report report;
};

struct OtherPlans {
  std::vector<OtherPlan> plans;
  std::vector<std::string> impossible;  ///< changes that the compiler refuses
};

/// Flags (sequence parallelism, ZeRO, the other strategy), the same ranks all on dp or all on tp, and, where rules
/// choose, for each of `layers` that has a weight: column, row, replicate, no annotation (a search has tried these:
/// see layer_alternatives). `graph` is typed. Each is compiled.
OtherPlans other_plans(const Graph& graph, const CompileOptions& options, const std::vector<std::string>& layers);

}  // namespace tpc

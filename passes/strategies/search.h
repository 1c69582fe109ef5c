/// Strategy "search": the cheapest of the plans in its SearchSpace, for the whole training step at once.
///
/// The step is a cost network (SearchNetwork), solved exactly by variable elimination (passes/solver); a checker that
/// shares no code with the solver accepts the certificate before the plan is called optimal.
#pragma once

#include <functional>
#include <optional>

#include "passes/strategies/strategy.h"

namespace tpc {

/// As SearchOptions::sub_axes ask, else where kv heads ask.
DeviceMesh search_mesh(const Graph& graph, const DeviceMesh& mesh, const CompileOptions& options);

ChosenShardings search_choose(const Graph& graph, const PassContext& context);

/// Builds a plan; bytes that it is above the limit.
using PlanExcess = std::function<int64_t(const ChosenShardings&)>;

/// The cheapest choices, of those tried, whose plan fits (solve_within); absent when none does. `graph` is
/// differentiated; its mesh need not be set.
std::optional<ChosenShardings> search_within(Graph graph, const PassContext& context, const PlanExcess& excess);

/// What a search would find.
struct SearchEstimate {
  int64_t price = 0;   ///< see MovePrice
  int64_t memory = 0;  ///< see memory_account
};

/// For advice: of a differentiated graph, whose mesh need not be set; nullopt when the search would refuse it, or take
/// longer than advice is worth.
std::optional<SearchEstimate> best_by_search(Graph graph, const CompileOptions& options);

}  // namespace tpc

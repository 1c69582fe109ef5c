/// Strategy "search": the cheapest legal plan of the whole training step, with proof.
///
/// The step is a cost network (SearchNetwork), solved exactly by variable elimination (passes/solver); a checker that
/// shares no code with the solver accepts the certificate before the plan is used.
#pragma once

#include "passes/strategies/strategy.h"

namespace tpc {

/// As SearchOptions::sub_axes ask, else where kv heads ask.
DeviceMesh search_mesh(const Graph& graph, const DeviceMesh& mesh, const CompileOptions& options);

ChosenShardings search_choose(const Graph& graph, const PassContext& context);

/// What search_choose() would prove of a differentiated graph, whose mesh need not be set; nullopt when it would
/// refuse.
std::optional<SearchProof> best_by_search(Graph graph, const CompileOptions& options);

}  // namespace tpc

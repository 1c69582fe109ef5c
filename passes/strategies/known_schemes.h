/// The rules' plans (strategy megatron) as labels of a search network: starting points where an optimum is out of
/// reach.
#pragma once

#include <vector>

#include "passes/strategies/search_problem.h"
#include "passes/strategies/strategy.h"

namespace tpc {

/// Whole tokens and sequence-parallel: the nodes do as the rules say, all else is free. With a dp axis also ZeRO 3 of
/// both, parameters lying as it says. What the search may not choose is left free. `graph` is the problem's.
std::vector<FixedLabels> known_schemes(const Graph& graph, const SearchProblem& problem, CompileOptions options);

}  // namespace tpc

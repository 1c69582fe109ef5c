/// Why a search space is empty, as the smallest set of wishes that cannot hold together.
#pragma once

#include "passes/strategies/search_space.h"

namespace tpc {

/// Throws UserError when `space` has nodes or leaves without any way.
void require_ways(const Graph& graph, const NodeRules& rules, const SearchOptions& options, const SearchSpace& space);

}  // namespace tpc

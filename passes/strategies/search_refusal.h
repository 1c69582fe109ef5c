/// Why a search space is empty, as the smallest set of wishes that cannot hold together.
#pragma once

#include "passes/strategies/search_space.h"

namespace tpc {

/// Returns `space`; throws UserError when it has nodes or leaves without any way.
const SearchSpace& require_ways(const Graph& graph, const NodeRules& rules, const SearchOptions& options,
                                const SearchSpace& space);

}  // namespace tpc

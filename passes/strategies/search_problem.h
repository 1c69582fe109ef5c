/// A step and all that a search of it stands on.
#pragma once

#include "passes/strategies/search_network.h"
#include "passes/strategies/search_refusal.h"

namespace tpc {

/// The graph is differentiated and has its mesh; graph and options must outlive it. Throws UserError when some node or
/// leaf has no way left (require_ways), or all together have too many.
struct SearchProblem {
  SearchProblem(const Graph& graph, const CompileOptions& options)
      : rules(graph),
        space(graph, rules, options.search),
        network(graph, require_ways(graph, rules, options.search, space), options.price) {}

  SearchProblem(const SearchProblem&) = delete;
  SearchProblem& operator=(const SearchProblem&) = delete;

  NodeRules rules;
  SearchSpace space;
  SearchNetwork network;
};

}  // namespace tpc

#include "passes/strategies/search.h"

#include "passes/strategies/annotations.h"
#include "passes/strategies/axis_state.h"
#include "passes/strategies/search_network.h"
#include "passes/strategies/search_refusal.h"
#include "passes/strategies/search_solution.h"
#include "passes/strategies/sub_axes.h"

namespace tpc {
namespace {

/// What a rule or a size forbids whatever else is wished.
void check_wishes(const Graph& graph, const NodeRules& rules, DiagnosticSink& diagnostics) {
  if (!has_annotations(graph)) return;
  NodeStrategies nothing(graph.nodes.size(), std::vector<Strategy>(graph.mesh.num_axes()));
  for (size_t axis = 0; axis < graph.mesh.num_axes(); ++axis) {
    if (user_axis(graph.mesh.axes()[axis].name) != "tp") continue;
    check_annotations(AxisState(graph, rules, nothing, axis), diagnostics);
    diagnostics.throw_if_errors();
  }
}

}  // namespace

DeviceMesh search_mesh(const Graph& graph, const DeviceMesh& mesh, const CompileOptions& options) {
  return options.search.sub_axes.empty() ? split_for_kv_heads(graph, mesh)
                                         : split_as_asked(mesh, options.search.sub_axes);
}

ChosenShardings search_choose(const Graph& graph, const PassContext& context) {
  const CompileOptions& options = context.options;
  NodeRules rules(graph);
  check_wishes(graph, rules, context.diagnostics);
  SearchSpace space(graph, rules, options.search);
  require_ways(graph, rules, options.search, space);
  SearchNetwork network(graph, space, options.price);
  SearchSolution solution = solve_within_memory(network, options.search);
  ChosenShardings chosen = network.decode(solution.assignment);
  chosen.proof = SearchProof{options.price.is_time() ? "time" : "bytes",
                             solution.charge.price,
                             solution.price_bound,
                             solution.charge.memory,
                             options.search.memory_limit,
                             network.num_decisions(),
                             network.num_choices()};
  return chosen;
}

std::optional<SearchProof> best_by_search(Graph graph, const CompileOptions& options) {
  DiagnosticSink ignored;
  try {
    graph.mesh = search_mesh(graph, without_trivial_axes(options.mesh), options);
    return search_choose(graph, {options, ignored}).proof;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace tpc

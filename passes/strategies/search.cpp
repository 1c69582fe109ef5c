#include "passes/strategies/search.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/strategies/annotations.h"
#include "passes/strategies/axis_state.h"
#include "passes/strategies/known_schemes.h"
#include "passes/strategies/limited_search.h"
#include "passes/strategies/search_problem.h"
#include "passes/strategies/search_solution.h"
#include "passes/strategies/sub_axes.h"

namespace tpc {
namespace {

/// What a rule or a size forbids whatever else is wished.
void check_wishes(const Graph& graph, DiagnosticSink& diagnostics) {
  if (!has_annotations(graph)) return;
  NodeRules rules(graph);
  NodeStrategies nothing(graph.nodes.size(), std::vector<Strategy>(graph.mesh.num_axes()));
  for (size_t axis = 0; axis < graph.mesh.num_axes(); ++axis) {
    if (user_axis(graph.mesh.axes()[axis].name) != "tp") continue;
    check_annotations(AxisState(graph, rules, nothing, axis), diagnostics);
    diagnostics.throw_if_errors();
  }
}

/// By bytes alone a few of them can decide over much memory: says so when there is a plan nearly as cheap.
void advise_on_memory(const SearchNetwork& network, const SearchSolution& chosen, const CompileOptions& options,
                      DiagnosticSink& diagnostics) {
  constexpr double kSmallPrice = 0.001;
  constexpr double kNotableMemory = 0.05;
  // Not worth as long a wait again.
  constexpr int64_t kMostEffort = int64_t{1} << 18;
  if (options.search.memory_price > 0 || chosen.effort > kMostEffort) return;
  std::optional<SearchSolution> other = solve_quickly(network, kSmallPrice);
  if (!other) return;
  auto part = [](int64_t now, int64_t before) {
    return static_cast<double>(now) / static_cast<double>(std::max<int64_t>(before, 1)) - 1;
  };
  double more_price = part(other->charge.price, chosen.charge.price);
  double less_memory = -part(other->charge.memory, chosen.charge.memory);
  if (more_price > kSmallPrice || less_memory < kNotableMemory) return;
  diagnostics.add(
      {Severity::kNote,
       {},
       fmt::format("nearly as cheap: with --memory-price {} collectives cost {} and a rank holds {:.2g} % less "
                   "by the search's account",
                   kSmallPrice, more_price < 1e-4 ? "hardly more" : fmt::format("{:.2g} % more", 100 * more_price),
                   100 * less_memory),
       {}});
}

/// `is_limited`: the bound is of plans with no more memory only.
ChosenShardings decoded(const SearchNetwork& network, const SearchSolution& solution, const CompileOptions& options,
                        bool is_limited) {
  ChosenShardings chosen = network.decode(solution.assignment);
  chosen.proof = SearchProof{
      options.price.is_time() ? "time" : "bytes", solution.charge.price,   solution.price_bound, solution.charge.memory,
      is_limited ? solution.charge.memory : 0,    network.num_decisions(), network.num_choices()};
  return chosen;
}

}  // namespace

DeviceMesh search_mesh(const Graph& graph, const DeviceMesh& mesh, const CompileOptions& options) {
  return options.search.sub_axes.empty() ? split_for_kv_heads(graph, mesh)
                                         : split_as_asked(mesh, options.search.sub_axes);
}

ChosenShardings search_choose(const Graph& graph, const PassContext& context) {
  const CompileOptions& options = context.options;
  check_wishes(graph, context.diagnostics);
  SearchProblem problem(graph, options);
  SearchSolution solution = solve_cheapest(problem.network, options.search.memory_price);
  advise_on_memory(problem.network, solution, options, context.diagnostics);
  return decoded(problem.network, solution, options, /*is_limited=*/false);
}

std::optional<ChosenShardings> search_within(Graph graph, const PassContext& context, const PlanExcess& excess) {
  const CompileOptions& options = context.options;
  graph.mesh = search_mesh(graph, without_trivial_axes(options.mesh), options);
  check_wishes(graph, context.diagnostics);
  SearchProblem problem(graph, options);
  auto excess_of = [&](const SearchSolution& solution) {
    return excess(decoded(problem.network, solution, options, /*is_limited=*/true));
  };
  auto found =
      solve_within(problem.network, options.search.memory_price, known_schemes(graph, problem, options), excess_of);
  if (!found) return std::nullopt;
  return decoded(problem.network, found->solution, options, found->is_limited);
}

std::optional<SearchEstimate> best_by_search(Graph graph, const CompileOptions& options) {
  try {
    graph.mesh = search_mesh(graph, without_trivial_axes(options.mesh), options);
    SearchProblem problem(graph, options);
    std::optional<SearchSolution> found = solve_quickly(problem.network);
    if (!found) return std::nullopt;
    return SearchEstimate{found->charge.price, found->charge.memory};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace tpc

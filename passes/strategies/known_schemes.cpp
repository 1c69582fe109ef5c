#include "passes/strategies/known_schemes.h"

#include <algorithm>

namespace tpc {
namespace {

/// -1: none of the labels.
template <class Placed>
int label_of(const Placed& wanted, const std::vector<Placed>& labels) {
  auto found = std::find(labels.begin(), labels.end(), wanted);
  return found == labels.end() ? -1 : static_cast<int>(found - labels.begin());
}

FixedLabels labels_of(const Graph& graph, const SearchProblem& problem, const ChosenShardings& chosen,
                      bool fixes_leaves) {
  const FixedLabels norm = problem.network.norm_way(0);
  FixedLabels labels(norm.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    int variable = problem.network.variable_of_node(n);
    if (variable < 0 || norm[static_cast<size_t>(variable)] >= 0) continue;
    const RuledNode& ruled = problem.rules[n];
    NodeSharding wanted =
        node_sharding(ruled.rule, chosen.nodes[n], ruled.operand_shapes, ruled.result_shapes, graph.mesh);
    labels[static_cast<size_t>(variable)] = label_of(wanted, problem.space.choices(problem.space.kind(n)).shardings);
  }
  for (size_t v = 0; v < graph.values.size() && fixes_leaves; ++v) {
    ValueId leaf{static_cast<int32_t>(v)};
    int variable = problem.network.variable_of_leaf(leaf);
    if (variable < 0 || !chosen.leaves[v]) continue;
    labels[static_cast<size_t>(variable)] =
        label_of(*chosen.leaves[v], problem.space.at_rest(problem.space.leaf_kind(leaf)));
  }
  return labels;
}

}  // namespace

std::vector<FixedLabels> known_schemes(const Graph& graph, const SearchProblem& problem, CompileOptions options) {
  bool has_data_axis = std::any_of(graph.mesh.axes().begin(), graph.mesh.axes().end(),
                                   [](const MeshAxis& axis) { return user_axis(axis.name) == "dp"; });
  options.strategy = "megatron";
  std::vector<FixedLabels> schemes;
  for (int zero_stage : {0, 3}) {
    if (zero_stage > 0 && !has_data_axis) continue;
    options.zero_stage = zero_stage;
    for (bool sequence_parallel : {false, true}) {
      options.sequence_parallel = sequence_parallel;
      DiagnosticSink ignored;
      try {
        ChosenShardings chosen = find_strategy(options.strategy)->choose(graph, {options, ignored});
        schemes.push_back(labels_of(graph, problem, chosen, /*fixes_leaves=*/zero_stage > 0));
      } catch (const UserError&) {
        // The rules cannot split this model so; the search goes on without.
      }
    }
  }
  return schemes;
}

}  // namespace tpc

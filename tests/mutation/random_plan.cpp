#include "tests/mutation/random_plan.h"

#include <random>

#include "compiler/frontend/model.h"
#include "passes/strategies/node_rules.h"
#include "passes/strategies/strategy.h"
#include "tests/support/random_model.h"

namespace tpc::testing {
namespace {

class RandomChoice {
 public:
  RandomChoice(const Graph& graph, const DeviceMesh& mesh, uint64_t seed)
      : graph_(graph), mesh_(mesh), rules_(graph), random_(seed) {}

  ChosenShardings make() {
    ChosenShardings chosen;
    chosen.nodes.resize(graph_.nodes.size());
    chosen.leaves.resize(graph_.values.size());
    chosen.kept.resize(graph_.values.size());
    chosen.via.resize(graph_.values.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (rules_[i].has_rule) chosen.nodes[i] = strategies(rules_[i]);
      bool is_leaf = node.op == OpKind::kInput || node.op == OpKind::kParameter || node.op == OpKind::kState;
      if (is_leaf) chosen.leaves[node.results[0].position()] = at_rest(graph_.value(node.results[0]).type.shape);
    }
    return chosen;
  }

 private:
  size_t below(size_t count) { return static_cast<size_t>(random_() % count); }

  /// Axis by axis anything that is still legal; a replicated node in a split neighbourhood as well.
  std::vector<Strategy> strategies(const RuledNode& node) {
    std::vector<Strategy> all = all_strategies(node.rule);
    std::vector<Strategy> chosen(mesh_.num_axes());
    for (Strategy& strategy : chosen) {
      strategy = all[below(all.size())];
      if (why_illegal(node.rule, chosen, node.operand_shapes, node.result_shapes, mesh_)) strategy = {};
    }
    return chosen;
  }

  TensorSharding at_rest(const Shape& shape) {
    TensorSharding sharding = TensorSharding::replicated(mesh_);
    for (Placement& placement : sharding.placements) {
      size_t dim = below(shape.size() + 1);
      if (dim == shape.size()) continue;
      placement = Placement::shard(static_cast<int64_t>(dim));
      if (why_illegal(shape, sharding, mesh_)) placement = {};
    }
    return canonical(shape, sharding, mesh_);
  }

  const Graph& graph_;
  const DeviceMesh& mesh_;
  NodeRules rules_;
  std::mt19937_64 random_;
};

DeviceMesh random_mesh(uint64_t seed) {
  constexpr const char* kMeshes[] = {"tp=2",      "tp=3",           "tp=4",          "tp=5",
                                     "dp=2",      "dp=2,tp=2",      "dp=2,tp=3",     "dp=3,tp=2",
                                     "dp=2,tp=4", "dp=2,pp=2,tp=2", "dp=2,pp=2,tp=3"};
  return *parse_mesh(kMeshes[seed % std::size(kMeshes)]);
}

}  // namespace

RandomPlan random_plan(uint64_t seed) {
  DiagnosticSink sink;
  RandomPlan result;
  result.model = random_model(seed);
  Model model = parse_model(result.model, "random.json", {}, sink);
  CompileOptions options;
  options.mesh = random_mesh(seed);
  options.optimizer = model.optimizer;
  options.prove = false;
  result.step = differentiated(model.graph, options);
  DeviceMesh mesh = find_strategy(options.strategy)->refine_mesh(result.step, options.mesh, options);
  options.chosen = std::make_shared<const ChosenShardings>(RandomChoice(result.step, mesh, seed).make());
  CompileResult compiled = compile(std::move(model.graph), options, sink);
  result.plan = std::move(compiled.plan);
  result.graph = std::move(compiled.graph);
  return result;
}

}  // namespace tpc::testing

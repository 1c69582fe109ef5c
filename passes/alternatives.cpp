#include "passes/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/ops/op_def.h"
#include "compiler/plan/plan_classes.h"
#include "passes/pipeline.h"
#include "passes/solver/min_marginals.h"
#include "passes/strategies/search.h"
#include "passes/strategies/search_problem.h"
#include "passes/strategies/search_solution.h"

namespace tpc {
namespace {

std::string form_text(const Value& value, const TensorSharding& sharding) {
  std::string text;
  for (const Placement& placement : sharding.placements) {
    text += (text.empty() ? "" : "/") + placement_name(value, placement);
  }
  return text;
}

std::string way_text(const Graph& graph, const Node& node, const NodeSharding& sharding) {
  std::string text;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value& value = graph.value(node.operands[i]);
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", value.name, form_text(value, sharding.operands[i]));
  }
  text += " -> " + form_text(graph.value(node.results[0]), sharding.results[0]);
  return text;
}

/// Whether the plan's step for the node is given and makes tensors so.
bool does_as(const Plan& plan, const Graph& graph, const Node& node, const NodeSharding& sharding) {
  const std::string& made = graph.value(node.results[0]).name;
  // A sum that merge-casts made in its last type is called like the cast.
  std::string merged = made + "." + std::string(to_string(graph.precision.compute));
  auto is_made = [&](const std::string& name) { return name == made || name == merged; };
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    return step.op == node.op && step.layer == node.layer && step.phase == node.phase &&
           is_made(plan.tensors[static_cast<size_t>(step.results[0])].name) &&
           shardings_of(plan, step.operands) == sharding.operands &&
           shardings_of(plan, step.results) == sharding.results;
  });
}

/// The nodes among `wanted` that have a choice, with their ways.
std::vector<NodeAlternatives> ways_of(const Graph& graph, const CompileOptions& options, const Plan& plan,
                                      const std::function<std::vector<size_t>(const SearchNetwork&)>& wanted) {
  SearchProblem problem(graph, options);
  const SearchSpace& space = problem.space;
  const SearchNetwork& network = problem.network;
  std::vector<NodeAlternatives> result;
  for (size_t n : wanted(network)) {
    const Node& node = graph.nodes[n];
    NodeAlternatives item{std::string(op_name(node.op)), graph.value(node.results[0]).name, {}};
    std::vector<Cost> least;
    for (int norm_way = 0; norm_way < network.num_norm_ways(); ++norm_way) {
      std::vector<Cost> costs =
          min_marginals(network.network(kCheapest, network.norm_way(norm_way)), network.variable_of_node(n));
      if (costs.empty()) refuse_too_many_choices();
      least.resize(costs.size(), kInfeasible);
      for (size_t i = 0; i < costs.size(); ++i) least[i] = std::min(least[i], costs[i]);
    }
    const std::vector<NodeSharding>& shardings = space.choices(space.kind(n)).shardings;
    for (size_t i = 0; i < shardings.size() && i < least.size(); ++i) {
      Alternative way{way_text(graph, node, shardings[i]), does_as(plan, graph, node, shardings[i]),
                      shardings[i].results[0].has_partial(), std::nullopt, 0};
      if (least[i] < kInfeasible) {
        Charge charge = network.cheapest_charge(least[i]);
        way.price = charge.price;
        way.memory = charge.memory;
      }
      item.ways.push_back(std::move(way));
    }
    std::stable_sort(item.ways.begin(), item.ways.end(), [](const Alternative& a, const Alternative& b) {
      if (a.price.has_value() != b.price.has_value()) return a.price.has_value();
      return std::pair(a.price.value_or(0), a.memory) < std::pair(b.price.value_or(0), b.memory);
    });
    result.push_back(std::move(item));
  }
  return result;
}

Graph step_on_mesh(const Graph& typed, const CompileOptions& options, const Plan& plan) {
  Graph graph = differentiated(typed, options);
  graph.mesh = plan.mesh;
  return graph;
}

}  // namespace

std::vector<NodeAlternatives> layer_alternatives(const Graph& typed, const CompileOptions& options, const Plan& plan,
                                                 const std::string& layer) {
  Graph graph = step_on_mesh(typed, options, plan);
  return ways_of(graph, options, plan, [&](const SearchNetwork& network) {
    std::vector<size_t> nodes;
    for (bool wants_heavy : {true, false}) {
      for (size_t n = 0; n < graph.nodes.size() && (wants_heavy || nodes.empty()); ++n) {
        const Node& node = graph.nodes[n];
        bool fits = node.layer == layer && node.phase == Phase::kForward && network.variable_of_node(n) >= 0;
        if (fits && (op_def(node.op).heavy == wants_heavy)) nodes.push_back(n);
      }
    }
    return nodes;
  });
}

std::vector<NodeAlternatives> tensor_alternatives(const Graph& typed, const CompileOptions& options, const Plan& plan,
                                                  const std::string& tensor) {
  Graph graph = step_on_mesh(typed, options, plan);
  return ways_of(graph, options, plan, [&](const SearchNetwork& network) {
    std::vector<size_t> nodes;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::vector<ValueId>& results = graph.nodes[n].results;
      bool makes = std::any_of(results.begin(), results.end(),
                               [&](ValueId result) { return graph.value(result).name == tensor; });
      if (makes && network.variable_of_node(n) >= 0) nodes.push_back(n);
    }
    return nodes;
  });
}

Front price_memory_front(const Graph& typed, const CompileOptions& options) {
  Graph graph = differentiated(typed, options);
  graph.mesh = search_mesh(graph, without_trivial_axes(options.mesh), options);
  SearchProblem problem(graph, options);
  auto progress = [&](size_t known) {
    if (options.progress) options.progress(fmt::format("{} corners of price against memory found", known));
  };
  Hull hull = search_hull(problem.network, kMostFrontPoints, {}, progress);
  if (hull.corners.empty()) refuse_too_many_choices();
  Front front{{}, hull.is_complete, hull.is_proved};
  for (const SearchSolution& corner : hull.corners) front.points.push_back({corner.charge.price, corner.charge.memory});
  return front;
}

}  // namespace tpc

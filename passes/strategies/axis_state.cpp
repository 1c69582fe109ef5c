#include "passes/strategies/axis_state.h"

#include <algorithm>
#include <tuple>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

/// Elements received in units of 1/n element: R->S, R->P, S->P 0; S->R and P->S (n-1)*B; P->R twice that; S->S
/// (n-1)*B/n.
/// In double: n and elements can both be large.
double placement_cost(const Placement& from, const Placement& to, double elements, double n) {
  if (from == to || from.is_replicate() || to.is_partial()) return 0;
  if (from.is_partial()) return (to.is_replicate() ? 2.0 : 1.0) * (n - 1) * elements;
  return to.is_replicate() ? (n - 1) * elements : (n - 1) * elements / n;
}

}  // namespace

AxisState::AxisState(const Graph& graph, const NodeRules& ruled, NodeStrategies& chosen, size_t axis)
    : graph_(graph), producer_(producers(graph)), ruled_(ruled), chosen_(chosen), axis_(axis) {
  clear_placements();
  std::string_view user = user_axis(graph.mesh.axes()[axis].name);
  for (const MeshAxis& other : graph.mesh.axes()) {
    if (user_axis(other.name) == user) user_axis_size_ *= other.size;
  }
}

void AxisState::choose(size_t node_index, Strategy strategy) {
  const Node& node = graph_.nodes[node_index];
  chosen_[node_index][axis_] = strategy;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    Placement placement = wanted(node_index, strategy, i);
    if (!made(node.operands[i])) choose_cast(node.operands[i], placement);
    if (!made(node.operands[i])) set_made(node.operands[i], placement);
    bool converted = *made(node.operands[i]) != placement && !is_available(node.operands[i], placement);
    if (converted) available_[node.operands[i].position()].push_back(placement);
  }
  for (size_t i = 0; i < node.results.size(); ++i) set_made(node.results[i], makes(node_index, strategy, i));
}

bool AxisState::waits_for_use(size_t node) const {
  const Node& cast = graph_.nodes[node];
  return cast.op == OpKind::kCast && !made(cast.operands[0]);
}

void AxisState::choose_cast(ValueId value, const Placement& placement) {
  auto made_by = static_cast<size_t>(producer_[value.position()]);
  if (!waits_for_use(made_by)) return;
  const std::vector<Factor>& factors = ruled_[made_by].rule.factors;
  for (size_t f = 0; f < factors.size() && placement.is_shard(); ++f) {
    if (factors[f].results[0]->dim == placement.dim)
      return choose(made_by, Strategy::factor(static_cast<int>(f), placement.unit));
  }
  choose(made_by, Strategy::replicate());
}

Placement AxisState::on_axis(const Shape& shape, Placement placement) const {
  if (placement.is_shard() && shape[static_cast<size_t>(placement.dim)] % (placement.unit * user_axis_size_) == 0) {
    placement.unit = 1;
  }
  return placement;
}

bool AxisState::is_available(ValueId value, const Placement& placement) const {
  const std::vector<Placement>& known = available_[value.position()];
  return std::find(known.begin(), known.end(), placement) != known.end();
}

Placement AxisState::wanted(size_t node, Strategy strategy, size_t operand) const {
  return on_axis(ruled_[node].operand_shapes[operand], operand_placement(ruled_[node].rule, strategy, operand));
}

Placement AxisState::makes(size_t node, Strategy strategy, size_t result) const {
  return on_axis(ruled_[node].result_shapes[result], result_placement(ruled_[node].rule, strategy, result));
}

std::optional<std::string> AxisState::why_illegal(size_t node, Strategy strategy) const {
  std::vector<Strategy> strategies = chosen_[node];
  strategies[axis_] = strategy;
  const RuledNode& ruled = ruled_[node];
  return tpc::why_illegal(ruled.rule, strategies, ruled.operand_shapes, ruled.result_shapes, graph_.mesh);
}

std::vector<Strategy> AxisState::legal_strategies(size_t node,
                                                  const std::vector<std::optional<Placement>>& operands) const {
  std::vector<Strategy> legal{Strategy::replicate()};
  const ShardingRule& rule = ruled_[node].rule;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    std::vector<int64_t> units{1};
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::optional<Factor::Use>& use = rule.factors[f].operands[i];
      if (!use || !operands[i] || !operands[i]->is_shard_of(use->dim) || operands[i]->unit % use->unit != 0) continue;
      int64_t unit = operands[i]->unit / use->unit;
      if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
    }
    for (int64_t unit : units) {
      Strategy strategy = Strategy::factor(static_cast<int>(f), unit);
      if (!why_illegal(node, strategy)) legal.push_back(strategy);
    }
  }
  return legal;
}

double AxisState::conversion_cost(size_t node, Strategy strategy,
                                  const std::vector<std::optional<Placement>>& operands) const {
  double cost = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    Placement placement = wanted(node, strategy, i);
    if (!operands[i] || is_available(graph_.nodes[node].operands[i], placement)) continue;
    cost += placement_cost(*operands[i], placement, static_cast<double>(num_elements(ruled_[node].operand_shapes[i])),
                           static_cast<double>(size()));
  }
  return cost;
}

Strategy AxisState::cheapest(size_t node, const std::vector<Strategy>& candidates,
                             const std::vector<std::optional<Placement>>& operands) const {
  TPC_CHECK(!candidates.empty(), "no candidate strategies");
  using Cost = std::tuple<double, int, int64_t>;
  std::optional<Cost> best_cost;
  Strategy best;
  for (Strategy candidate : candidates) {
    int converted = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] && *operands[i] != wanted(node, candidate, i)) ++converted;
    }
    int64_t pending = 0;
    for (size_t i = 0; i < ruled_[node].result_shapes.size(); ++i) {
      Placement result = makes(node, candidate, i);
      if (result.is_partial()) pending += num_elements(ruled_[node].result_shapes[i]);
    }
    Cost cost{conversion_cost(node, candidate, operands), converted, pending};
    if (best_cost && *best_cost <= cost) continue;
    best_cost = cost;
    best = candidate;
  }
  return best;
}

std::optional<Strategy> AxisState::partial_pass(size_t node_index) const {
  const Node& node = graph_.nodes[node_index];
  const ShardingRule& rule = ruled_[node_index].rule;
  for (size_t g = 0; g < rule.linear.size(); ++g) {
    Strategy strategy = Strategy::linear(static_cast<int>(g));
    bool fits = true;
    for (size_t i = 0; i < node.operands.size() && fits; ++i) {
      const std::optional<Placement>& placement = made(node.operands[i]);
      if (wanted(node_index, strategy, i).is_partial()) {
        fits = placement && placement->is_partial() && available_[node.operands[i].position()].empty();
      } else {
        fits = !placement || placement->is_replicate() || is_available(node.operands[i], Placement::replicate());
      }
    }
    if (fits) return strategy;
  }
  return std::nullopt;
}

}  // namespace tpc

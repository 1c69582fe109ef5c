/// One mesh axis while a strategy walks the graph in order: how each value lies on it, which strategies are legal
/// there, and what converting would move.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/sharding/sharding_rule.h"
#include "passes/strategies/node_rules.h"
#include "passes/strategies/strategy.h"

namespace tpc {

class AxisState {
 public:
  /// `chosen` holds the strategies of the axes before `axis`; this axis and later ones are still replicate.
  AxisState(const Graph& graph, const NodeRules& ruled, NodeStrategies& chosen, size_t axis);

  const Graph& graph() const { return graph_; }
  const RuledNode& ruled(size_t node) const { return ruled_[node]; }
  size_t axis() const { return axis_; }
  int64_t size() const { return graph_.mesh.axis_size(axis_); }

  Strategy chosen(size_t node) const { return chosen_[node][axis_]; }
  /// Records the choice and how the node makes its results; a leaf operand that was free lies as this use wants it, and
  /// so does the leaf that such an operand is a cast of.
  void choose(size_t node, Strategy strategy);
  /// The node casts a leaf that is still free: it is chosen with the first use of what it makes.
  bool waits_for_use(size_t node) const;
  /// Forgets how values lie, keeps the choices.
  void clear_placements() {
    made_.assign(graph_.values.size(), std::nullopt);
    available_.assign(graph_.values.size(), {});
  }

  /// How a value lies on this axis; absent while it is free (a parameter or state without a use so far).
  const std::optional<Placement>& made(ValueId value) const { return made_[value.position()]; }
  void set_made(ValueId value, const Placement& placement) { made_[value.position()] = placement; }

  /// Placements with units dropped where they change nothing on this axis.
  Placement wanted(size_t node, Strategy strategy, size_t operand) const;
  Placement makes(size_t node, Strategy strategy, size_t result) const;

  /// Why the node cannot follow `strategy` here, with what it does on the axes before; nullopt when it can.
  std::optional<std::string> why_illegal(size_t node, Strategy strategy) const;

  /// Replicate and every legal split of a factor (in units that the operands' placements show); no linear groups.
  std::vector<Strategy> legal_strategies(size_t node, const std::vector<std::optional<Placement>>& operands) const;

  /// The candidate that moves least from `operands` (absent: free), then converts fewest operands, then leaves least
  /// Partial, then the first.
  Strategy cheapest(size_t node, const std::vector<Strategy>& candidates,
                    const std::vector<std::optional<Placement>>& operands) const;

  /// Elements that a rank receives when the operands are converted, times the size of the axis. What an earlier node
  /// already wants so costs nothing.
  double conversion_cost(size_t node, Strategy strategy, const std::vector<std::optional<Placement>>& operands) const;

  /// The linear group through which the node may pass Partial operands on without converting: all of its operands are
  /// Partial, none of them completed for an earlier node already, and the other operands are to be had replicated;
  /// nullopt when there is none.
  std::optional<Strategy> partial_pass(size_t node) const;

 private:
  /// Chooses the cast that makes `value`, so that it makes it as `placement` says.
  void choose_cast(ValueId value, const Placement& placement);
  Placement on_axis(const Shape& shape, Placement placement) const;
  bool is_available(ValueId value, const Placement& placement) const;

  const Graph& graph_;
  std::vector<int> producer_;
  const NodeRules& ruled_;
  NodeStrategies& chosen_;
  size_t axis_;
  /// Product of the sub-axes that belong to the same axis of the user's.
  int64_t user_axis_size_ = 1;
  std::vector<std::optional<Placement>> made_;
  /// Other placements that nodes so far want of each value: a conversion is made once for all who want it.
  std::vector<std::vector<Placement>> available_;
};

}  // namespace tpc

#include "passes/strategies/zero.h"

#include "compiler/core/check.h"

namespace tpc {
namespace {

class DataSplitter {
 public:
  DataSplitter(const Graph& graph, const NodeRules& rules, int stage, ChosenShardings& chosen, size_t axis)
      : graph_(graph), rules_(rules), stage_(stage), chosen_(chosen), axis_(axis) {}

  void run() {
    std::vector<int64_t> split_by(graph_.values.size(), -1);  // of gradients, by dimension
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op == OpKind::kAdamW || node.op == OpKind::kSgd) split_by[node.operands[1].position()] = split_update(i);
    }
    // The norm takes its squares of the same blocks.
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op != OpKind::kSumSquares || node.phase != Phase::kOptimizer) continue;
      int64_t dim = split_by[node.operands[0].position()];
      if (dim >= 0) chosen_.nodes[i][axis_] = along(i, dim);
    }
  }

 private:
  /// A rank casts its block, and the ranks gather the smaller one, in backward again.
  void split_casts(ValueId parameter, int64_t dim) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& cast = graph_.nodes[i];
      if (cast.op != OpKind::kCast || cast.operands[0] != parameter) continue;
      chosen_.nodes[i][axis_] = along(i, dim);
      const RuledNode& ruled = rules_[i];
      chosen_.kept[cast.results[0].position()] =
          node_sharding(ruled.rule, chosen_.nodes[i], ruled.operand_shapes, ruled.result_shapes, graph_.mesh).results;
    }
  }

  Strategy along(size_t node, int64_t dim) const {
    const std::vector<Factor>& factors = rules_[node].rule.factors;
    for (size_t f = 0; f < factors.size(); ++f) {
      const std::optional<Factor::Use>& use = factors[f].operands[0];
      if (use && use->dim == dim) return Strategy::factor(static_cast<int>(f));
    }
    TPC_UNREACHABLE("{} has no factor of dimension {}", op_name(graph_.nodes[node].op), dim);
  }

  /// The dimension along which the update is split now; -1 when there is none.
  int64_t split_update(size_t index) {
    const Node& node = graph_.nodes[index];
    const RuledNode& ruled = rules_[index];
    auto sharding_now = [&] {
      return node_sharding(ruled.rule, chosen_.nodes[index], ruled.operand_shapes, ruled.result_shapes, graph_.mesh)
          .operands[0];
    };
    const TensorSharding now = sharding_now();
    const Shape& shape = ruled.operand_shapes[0];
    int64_t best = -1;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      bool taken = false;
      for (const Placement& placement : now.placements) {
        taken = taken || placement.is_shard_of(static_cast<int64_t>(dim));
      }
      bool larger = best < 0 || shape[dim] > shape[static_cast<size_t>(best)];
      if (!taken && larger && shape[dim] >= graph_.mesh.axis_size(axis_)) best = static_cast<int64_t>(dim);
    }
    if (best < 0) return -1;
    chosen_.nodes[index][axis_] = along(index, best);
    if (stage_ == 3) {
      TensorSharding at_rest = sharding_now();
      chosen_.leaves[node.operands[0].position()] = at_rest;
      chosen_.kept[node.operands[0].position()] = {at_rest};
      split_casts(node.operands[0], best);
    }
    return best;
  }

  const Graph& graph_;
  const NodeRules& rules_;
  int stage_;
  ChosenShardings& chosen_;
  size_t axis_;
};

}  // namespace

void split_over_data(const Graph& graph, const NodeRules& rules, int stage, ChosenShardings& chosen) {
  if (stage == 0) return;
  for (size_t axis = 0; axis < graph.mesh.num_axes(); ++axis) {
    if (user_axis(graph.mesh.axes()[axis].name) == "dp") DataSplitter(graph, rules, stage, chosen, axis).run();
  }
}

}  // namespace tpc

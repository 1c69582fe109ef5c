#include "passes/strategies/shared_heads.h"

#include <set>

#include "compiler/ops/op_def.h"
#include "passes/strategies/cast_leaves.h"

namespace tpc {

struct SharedHeads::Walk {
  const Graph& graph;
  const NodeRules& rules;
  const DimClasses& classes;
  SharedHeads& result;
  std::vector<int> producer;
  std::vector<std::vector<Use>> all_uses;
  std::set<ValueId> seen;
  std::set<std::pair<int, int>> kv_uses = {};  ///< uses of a value as keys or values

  /// Towards the contraction that made `value`, through ops without work of their own.
  void back(ValueId value) {
    if (!seen.insert(value).second) return;
    int made_by = producer[value.position()];
    const Node& node = graph.nodes[static_cast<size_t>(made_by)];
    if (is_leaf(node.op)) {
      result.shared_leaf_[value.position()] = true;
      return;
    }
    result.shares_[static_cast<size_t>(made_by)] = true;
    if (!op_def(node.op).heavy) {
      for (ValueId operand : node.operands) back(operand);
      return;
    }
    result.repeats_[static_cast<size_t>(made_by)] = makes_nothing_else(node);
    for (ValueId operand : node.operands) {
      ValueId leaf = behind_cast(graph, producer, operand);
      if (!is_leaf(graph.nodes[static_cast<size_t>(producer[leaf.position()])].op)) continue;
      result.shared_leaf_[leaf.position()] = true;
      if (leaf != operand) result.shares_[static_cast<size_t>(producer[operand.position()])] = true;
    }
  }

  /// True when everything that forward makes of the node's results ends as keys or values: not for a projection that
  /// makes queries too.
  bool makes_nothing_else(const Node& node) {
    std::vector<ValueId> open(node.results.begin(), node.results.end());
    std::set<ValueId> seen_here(open.begin(), open.end());
    while (!open.empty()) {
      ValueId made = open.back();
      open.pop_back();
      for (const Use& use : all_uses[made.position()]) {
        const Node& user = graph.nodes[static_cast<size_t>(use.node)];
        if (user.phase != Phase::kForward || kv_uses.count({use.node, use.operand}) != 0) continue;
        if (op_def(user.op).heavy || user.results.empty()) return false;
        for (ValueId next : user.results) {
          if (seen_here.insert(next).second) open.push_back(next);
        }
      }
    }
    return true;
  }

  /// From the gradient of keys or values to what contracts it, and on with the weight's gradient to the update.
  void forward(ValueId value) {
    if (!seen.insert(value).second || graph.value(value).type.shape.empty()) return;
    for (const Use& use : all_uses[value.position()]) {
      auto index = static_cast<size_t>(use.node);
      const Node& user = graph.nodes[index];
      result.shares_[index] = true;
      bool heavy = op_def(user.op).heavy;
      if (heavy && user.differentiates.is_valid()) {
        result.repeats_[index] = result.repeats_[static_cast<size_t>(producer[user.differentiates.position()])];
      }
      for (ValueId made : user.results) {
        if (!heavy || !classes.has_batch(made)) forward(made);
      }
    }
  }
};

SharedHeads::SharedHeads(const Graph& graph, const NodeRules& rules, const DimClasses& classes, int64_t ranks)
    : shares_(graph.nodes.size(), false),
      repeats_(graph.nodes.size(), false),
      shared_leaf_(graph.values.size(), false) {
  struct Carrier {
    size_t node;
    size_t index;
    bool is_result;
  };
  std::vector<Carrier> carriers;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const RuledNode& ruled = rules[n];
    for (const Factor& inner : ruled.rule.factors) {
      if (inner.inside < 0) continue;
      const Factor& outer = ruled.rule.factors[static_cast<size_t>(inner.inside)];
      auto add = [&](const auto& inner_uses, const auto& outer_uses, const std::vector<Shape>& shapes, bool is_result) {
        for (size_t i = 0; i < outer_uses.size(); ++i) {
          if (!outer_uses[i] || inner_uses[i]) continue;
          int64_t heads = shapes[i][static_cast<size_t>(outer_uses[i]->dim)] / outer_uses[i]->unit;
          if (heads % ranks != 0) carriers.push_back({n, i, is_result});
        }
      };
      add(inner.operands, outer.operands, ruled.operand_shapes, false);
      add(inner.results, outer.results, ruled.result_shapes, true);
    }
  }
  if (carriers.empty()) return;
  Walk walk{graph, rules, classes, *this, producers(graph), uses(graph), {}};
  for (const Carrier& carrier : carriers) {
    if (!carrier.is_result) walk.kv_uses.insert({static_cast<int>(carrier.node), static_cast<int>(carrier.index)});
  }
  for (const Carrier& carrier : carriers) {
    if (!carrier.is_result) walk.back(graph.nodes[carrier.node].operands[carrier.index]);
  }
  for (const Carrier& carrier : carriers) {
    if (carrier.is_result) walk.forward(graph.nodes[carrier.node].results[carrier.index]);
  }
}

}  // namespace tpc

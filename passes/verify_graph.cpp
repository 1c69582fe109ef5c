#include "passes/verify_graph.h"

#include <fmt/format.h>

#include <unordered_set>

#include "compiler/ir/node_kind.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

using Broken = std::optional<std::string>;

std::string describe(const Graph& graph, const Node& node) {
  std::string result = node.results.empty() ? std::string() : " \"" + graph.value(node.results[0]).name + "\"";
  return fmt::format("{}{} (layer \"{}\")", op_def(node.op).name, result, node.layer);
}

/// Parsed: topological order, single assignment, arity, unique value names.
Broken verify_structure(const Graph& graph) {
  std::vector<bool> made(graph.values.size(), false);
  std::unordered_set<std::string_view> names;
  names.reserve(graph.values.size());
  for (const Value& value : graph.values) {
    if (!names.insert(value.name).second) return fmt::format("two values are named \"{}\"", value.name);
  }
  for (const Node& node : graph.nodes) {
    const OpDef& def = op_def(node.op);
    int count = static_cast<int>(node.operands.size());
    if (count < def.min_operands || count > def.max_operands) {
      return fmt::format("{} has {} operands, its op takes {} to {}", describe(graph, node), count, def.min_operands,
                         def.max_operands);
    }
    if (def.num_results >= 0 && node.results.size() != static_cast<size_t>(def.num_results)) {
      return fmt::format("{} has {} results, its op makes {}", describe(graph, node), node.results.size(),
                         def.num_results);
    }
    for (ValueId operand : node.operands) {
      if (!operand.is_valid() || operand.position() >= made.size() || !made[operand.position()]) {
        return fmt::format("{} reads a value that no earlier node makes", describe(graph, node));
      }
    }
    for (ValueId result : node.results) {
      if (!result.is_valid() || result.position() >= made.size()) {
        return fmt::format("{} makes an unknown value", describe(graph, node));
      }
      if (made[result.position()]) return fmt::format("{} makes a value a second time", describe(graph, node));
      made[result.position()] = true;
    }
  }
  return std::nullopt;
}

Broken verify_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> operands = operand_types(graph, node);
  std::vector<TensorType> wanted;
  try {
    wanted = op_def(node.op).infer_types({node.attributes, operands, {}});
  } catch (const OpTypeError& error) {
    return fmt::format("{}: {}", describe(graph, node), error.what());
  }
  if (wanted != result_types(graph, node)) {
    return fmt::format("{} has other types than its op infers", describe(graph, node));
  }
  return std::nullopt;
}

/// Differentiated: a trainable parameter has at most one update (none when the loss does not depend on it), a frozen
/// one none.
Broken verify_updates(const Graph& graph) {
  std::vector<int> updates(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kUpdate) ++updates[node.operands[0].position()];
  }
  for (const Node& node : graph.nodes) {
    if (node.op != OpKind::kParameter) continue;
    int count = updates[node.results[0].position()];
    bool trainable = node.attributes.get_bool("trainable");
    if (count > 1 || (!trainable && count != 0)) {
      return fmt::format("parameter \"{}\" ({}) has {} updates", graph.value(node.results[0]).name,
                         trainable ? "trainable" : "frozen", count);
    }
  }
  return std::nullopt;
}

/// Placed: what the node makes and wants is allowed by its op's rule.
Broken verify_placements(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (node.operand_shardings.size() != node.operands.size()) {
    return fmt::format("{} has {} operand shardings", describe(graph, node), node.operand_shardings.size());
  }
  NodeSharding sharding;
  sharding.operands = node.operand_shardings;
  for (ValueId result : node.results) sharding.results.push_back(graph.value(result).sharding);
  std::vector<Shape> operands = operand_shapes(graph, node);
  std::vector<Shape> results = result_shapes(graph, node);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (auto why = why_illegal(operands[i], sharding.operands[i], graph.mesh)) {
      return fmt::format("{}, operand {}: {}", describe(graph, node), i, *why);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (auto why = why_illegal(results[i], sharding.results[i], graph.mesh)) {
      return fmt::format("{}, result {}: {}", describe(graph, node), i, *why);
    }
  }
  if (def.sharding_rule == nullptr) return std::nullopt;
  std::vector<TensorType> operand_list = operand_types(graph, node);
  std::vector<TensorType> result_list = result_types(graph, node);
  ShardingRule rule = def.sharding_rule({node.attributes, operand_list, result_list});
  if (!find_strategies(rule, sharding, operands, results, graph.mesh)) {
    std::string text = fmt::format("{}: the op's rule does not allow", describe(graph, node));
    for (const TensorSharding& operand : sharding.operands) text += " " + to_string(operand);
    text += " ->";
    for (const TensorSharding& result : sharding.results) text += " " + to_string(result);
    return text;
  }
  return std::nullopt;
}

/// Typed, and Placed from that stage on. Nodes that are alike are looked at once.
Broken verify_nodes(const Graph& graph, bool are_placed) {
  std::unordered_set<std::string> known;
  for (const Node& node : graph.nodes) {
    std::string key = node_kind_key(graph, node);
    if (are_placed) {
      for (const TensorSharding& wanted : node.operand_shardings) append_sharding(key, wanted);
      for (ValueId result : node.results) append_sharding(key, graph.value(result).sharding);
    }
    if (!known.insert(std::move(key)).second) continue;
    if (Broken broken = verify_types(graph, node)) return broken;
    if (!are_placed) continue;
    if (Broken broken = verify_placements(graph, node)) return broken;
  }
  return std::nullopt;
}

/// Reconciled: every operand arrives as it is wanted.
Broken verify_reconciled(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Value& value = graph.value(node.operands[i]);
      if (value.sharding != node.operand_shardings[i]) {
        return fmt::format("{} wants \"{}\" as {}, it is {}", describe(graph, node), value.name,
                           to_string(node.operand_shardings[i]), to_string(value.sharding));
      }
    }
  }
  return std::nullopt;
}

Broken verify_no_redistribute(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kRedistribute) return fmt::format("{} is left", describe(graph, node));
  }
  return std::nullopt;
}

Broken verify_local_shapes(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (!value.local_shape || *value.local_shape != fullest_shape(value.type.shape, value.sharding, graph.mesh)) {
      return fmt::format("\"{}\" has no right local shape", value.name);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> verify_graph(const Graph& graph, Stage stage) {
  if (Broken broken = verify_structure(graph)) return broken;
  if (stage >= Stage::kTyped) {
    if (Broken broken = verify_nodes(graph, stage >= Stage::kPlaced)) return broken;
  }
  if (stage >= Stage::kDifferentiated) {
    if (Broken broken = verify_updates(graph)) return broken;
  }
  if (stage >= Stage::kReconciled) {
    if (Broken broken = verify_reconciled(graph)) return broken;
  }
  if (stage >= Stage::kCollective) {
    if (Broken broken = verify_no_redistribute(graph)) return broken;
  }
  if (stage >= Stage::kLocal) return verify_local_shapes(graph);
  return std::nullopt;
}

}  // namespace tpc

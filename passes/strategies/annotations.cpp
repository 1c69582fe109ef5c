#include "passes/strategies/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/core/check.h"
#include "passes/strategies/cast_leaves.h"

namespace tpc {
namespace {

using Pin = std::pair<std::string, Placement>;

/// "input" and "weight" are operands 0 and 1, "output" is result 0. Units do not matter here.
Placement placement_of(const ShardingRule& rule, Strategy strategy, const std::string& use) {
  if (use == "output") return result_placement(rule, strategy, 0);
  return operand_placement(rule, strategy, use == "weight" ? 1 : 0);
}

Placement placement_of(const AxisState& state, size_t node, Strategy strategy, const std::string& use) {
  return placement_of(state.ruled(node).rule, strategy, use);
}

bool agrees(const Placement& pinned, const Placement& found) {
  return pinned.kind == found.kind && pinned.dim == found.dim;
}

/// column: the weight and the output are split, the input is whole. row: the input and the weight are split along what
/// is summed over. replicate: nothing is split.
bool matches_layer(OpKind op, const ShardingRule& rule, Strategy strategy, const std::string& layer) {
  if (layer.empty()) return true;
  if (layer == "replicate") return strategy.kind == Strategy::Kind::kReplicate;
  if (strategy.kind != Strategy::Kind::kFactor) return false;
  const Factor& factor = rule.factors[static_cast<size_t>(strategy.index)];
  if (factor.operands.size() < 2 || !factor.operands[1]) return false;
  bool table = op == OpKind::kEmbedding;
  if (layer == "column") return !factor.operands[0] && factor.results[0];
  return !factor.results[0] && (table || factor.operands[0]);
}

bool matches(OpKind op, const ShardingRule& rule, Strategy strategy, const std::string& layer,
             const std::vector<Pin>& pins) {
  return matches_layer(op, rule, strategy, layer) && std::all_of(pins.begin(), pins.end(), [&](const Pin& pin) {
           return agrees(pin.second, placement_of(rule, strategy, pin.first));
         });
}

bool matches(const AxisState& state, size_t node, Strategy strategy, const std::string& layer,
             const std::vector<Pin>& pins) {
  return matches(state.graph().nodes[node].op, state.ruled(node).rule, strategy, layer, pins);
}

std::vector<Strategy> splits_and_replicate(const ShardingRule& rule) {
  std::vector<Strategy> strategies{Strategy::replicate()};
  for (size_t f = 0; f < rule.factors.size(); ++f) strategies.push_back(Strategy::factor(static_cast<int>(f)));
  return strategies;
}

const Value& pinned_value(const Graph& graph, const Node& node, const std::string& use) {
  if (use == "output") return graph.value(node.results[0]);
  return graph.value(node.operands[use == "weight" ? 1 : 0]);
}

/// Into how many blocks a strategy could split the node; 0 for replicate.
int64_t num_blocks(const AxisState& state, size_t node, Strategy strategy) {
  if (strategy.kind != Strategy::Kind::kFactor) return 0;
  const RuledNode& ruled = state.ruled(node);
  const Factor& factor = ruled.rule.factors[static_cast<size_t>(strategy.index)];
  for (size_t i = 0; i < factor.operands.size(); ++i) {
    const std::optional<Factor::Use>& use = factor.operands[i];
    if (use) return ruled.operand_shapes[i][static_cast<size_t>(use->dim)] / use->unit;
  }
  return 0;
}

/// As the user would write it: "weight": "S(heads)".
std::string pin_text(const Graph& graph, const Node& node, const Pin& pin) {
  return fmt::format("\"{}\": \"{}\"", pin.first, placement_name(pinned_value(graph, node, pin.first), pin.second));
}

std::string pins_text(const Graph& graph, const Node& node, const std::vector<Pin>& pins) {
  std::string text;
  for (const Pin& pin : pins) text += (text.empty() ? "" : ", ") + pin_text(graph, node, pin);
  return text;
}

std::string in_words(const Graph& graph, const Node& node, const Pin& pin) {
  if (pin.second.is_replicate()) return fmt::format("\"{}\" whole", pin.first);
  if (pin.second.is_partial()) return fmt::format("\"{}\" as a partial sum", pin.first);
  return fmt::format("\"{}\" split by {}", pin.first, dim_name(pinned_value(graph, node, pin.first), pin.second.dim));
}

bool has_weight(const Node& node) { return node.op == OpKind::kContract || node.op == OpKind::kEmbedding; }

/// What the use could be, if the other pins are kept: every placement that some legal strategy gives it.
std::vector<std::string> ways(const AxisState& state, size_t node, const std::string& layer, const std::string& use,
                              const std::vector<Pin>& kept) {
  const Graph& graph = state.graph();
  std::vector<std::string> found;
  for (Strategy strategy : splits_and_replicate(state.ruled(node).rule)) {
    if (!matches(state, node, strategy, layer, kept) || state.why_illegal(node, strategy)) continue;
    std::string way = pin_text(graph, graph.nodes[node], {use, placement_of(state, node, strategy, use)});
    if (has_weight(graph.nodes[node]) && strategy.kind == Strategy::Kind::kFactor) {
      // Splitting a batch-like dimension is no answer to a wish about weights.
      const Factor& factor = state.ruled(node).rule.factors[static_cast<size_t>(strategy.index)];
      if (!factor.operands[1]) continue;
      way += factor.results[0] ? " (column-parallel: the output is split, nothing is summed)"
                               : " (row-parallel: one all_reduce completes the sum)";
    } else if (has_weight(graph.nodes[node])) {
      way += " (every rank does the whole layer)";
    }
    if (std::find(found.begin(), found.end(), way) == found.end()) found.push_back(std::move(way));
  }
  return found;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

/// A pin that no strategy of the op gives, whatever the others are.
const Pin* impossible_pin(const AxisState& state, size_t node, const Annotation& annotation) {
  for (const Pin& pin : annotation.uses) {
    std::vector<Strategy> strategies = splits_and_replicate(state.ruled(node).rule);
    bool possible = std::any_of(strategies.begin(), strategies.end(),
                                [&](Strategy s) { return matches(state, node, s, annotation.layer, {pin}); });
    if (!possible) return &pin;
  }
  return nullptr;
}

/// Names the pin that cannot be, or the pins that cannot be together with one mend for each.
void report_impossible(const AxisState& state, size_t node, const Annotation& annotation, DiagnosticSink& diagnostics) {
  const Graph& graph = state.graph();
  const Node& source = graph.nodes[node];
  SourceLoc loc{graph.source_file, annotation.pointer};
  if (diagnostics.has_any_at(loc)) return;
  if (annotation.uses.empty()) {
    diagnostics.error(loc, fmt::format("\"{}\" cannot be \"{}\": this kind of layer has no weight to split that way; "
                                       "\"replicate\", or pins of its uses, work",
                                       source.layer, annotation.layer));
    return;
  }
  if (const Pin* pin = impossible_pin(state, node, annotation)) {
    diagnostics.error(loc, fmt::format("\"{}\" cannot have {}: {} does not work on blocks of that; possible are {}",
                                       source.layer, in_words(graph, source, *pin), op_name(source.op),
                                       joined(ways(state, node, annotation.layer, pin->first, {}), ", or ")));
    return;
  }
  std::vector<std::string> wishes;
  std::vector<Note> mends;
  for (size_t i = 0; i < annotation.uses.size(); ++i) {
    wishes.push_back(in_words(graph, source, annotation.uses[i]));
    std::vector<Pin> kept = annotation.uses;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<std::string> found = ways(state, node, annotation.layer, annotation.uses[i].first, kept);
    if (found.empty()) continue;
    mends.push_back({loc, fmt::format("with {} kept, {}", pins_text(graph, source, kept), joined(found, ", or "))});
  }
  diagnostics.error(loc,
                    fmt::format("\"{}\" cannot have {} at once: ranks that hold blocks of one tensor need the matching "
                                "blocks of the other",
                                source.layer, joined(wishes, " and ")),
                    std::move(mends));
}

/// The legal strategies that agree with the annotation; reports when there is none.
std::vector<Strategy> pinned_strategies(const AxisState& state, size_t node, DiagnosticSink& diagnostics) {
  const Graph& graph = state.graph();
  const Annotation& annotation = graph.nodes[node].annotation;
  std::vector<Strategy> legal;
  std::optional<std::string> why;
  bool possible = false;
  for (Strategy strategy : splits_and_replicate(state.ruled(node).rule)) {
    if (!matches(state, node, strategy, annotation.layer, annotation.uses)) continue;
    possible = true;
    if (std::optional<std::string> reason = state.why_illegal(node, strategy)) {
      why = reason;
    } else {
      legal.push_back(strategy);
    }
  }
  if (!possible) {
    report_impossible(state, node, annotation, diagnostics);
  } else if (legal.empty()) {
    diagnostics.error({graph.source_file, annotation.pointer},
                      fmt::format("\"{}\" cannot be split as pinned: {}", graph.nodes[node].layer, *why));
  }
  return legal;
}

/// Two layers that share a weight may not pin it differently.
void check_shared_weights(const Graph& graph, DiagnosticSink& diagnostics) {
  std::map<ValueId, std::pair<const Node*, Placement>> pinned;
  std::vector<int> made_by = producers(graph);
  for (const Node& node : graph.nodes) {
    for (const Pin& pin : node.annotation.uses) {
      if (pin.first != "weight" || node.operands.size() < 2) continue;
      ValueId weight = behind_cast(graph, made_by, node.operands[1]);
      auto [entry, is_new] = pinned.try_emplace(weight, &node, pin.second);
      if (is_new || entry->second.second == pin.second) continue;
      const Node& other = *entry->second.first;
      diagnostics.error(
          {graph.source_file, node.annotation.pointer},
          fmt::format("\"{}\" pins \"{}\" as {}, \"{}\" pins it as {}: one tensor has one placement at rest",
                      node.layer, graph.value(weight).name, placement_name(graph.value(weight), pin.second),
                      other.layer, placement_name(graph.value(weight), entry->second.second)),
          {{{graph.source_file, other.annotation.pointer}, "the other pin is here"}});
    }
  }
}

/// A layer pinned whole in the middle of a split chain: what it gathers is sliced again right after.
void warn_if_undone(const AxisState& state, size_t node, Strategy natural, Strategy pinned,
                    const std::vector<std::vector<Use>>& all_uses, const std::set<ValueId>& leaves,
                    DiagnosticSink& diagnostics) {
  if (pinned.kind != Strategy::Kind::kReplicate || natural.kind != Strategy::Kind::kFactor) return;
  const Graph& graph = state.graph();
  const Node& source = graph.nodes[node];
  // Weights lie as the layer wants them: only what arrives split is gathered.
  std::vector<std::optional<Placement>> operands;
  for (ValueId operand : source.operands) {
    bool arrives_split = state.made(operand) && state.made(operand)->is_shard() && !leaves.count(operand);
    operands.push_back(arrives_split ? state.made(operand) : std::nullopt);
  }
  int64_t gathered = static_cast<int64_t>(state.conversion_cost(node, pinned, operands)) / state.size();
  if (gathered == 0 || diagnostics.has_any_at({graph.source_file, source.annotation.pointer})) return;
  for (const Use& use : all_uses[source.results[0].position()]) {
    size_t next = static_cast<size_t>(use.node);
    if (graph.nodes[next].phase != Phase::kForward || !state.ruled(next).has_rule) continue;
    if (!state.wanted(next, state.chosen(next), static_cast<size_t>(use.operand)).is_shard()) continue;
    int64_t bytes = gathered * byte_size(graph.value(source.operands[0]).type.dtype);
    diagnostics.warning(
        {graph.source_file, source.annotation.pointer},
        fmt::format(
            "\"{}\" is pinned to be whole: its input is gathered, {} bytes a step on each rank of \"{}\", and the "
            "gather is undone by the next slice, in \"{}\"; without the pin it is split like its neighbours and "
            "gathers nothing",
            source.layer, bytes, user_axis(graph.mesh.axes()[state.axis()].name), graph.nodes[next].layer));
    return;
  }
}

}  // namespace

bool has_annotations(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return !n.annotation.empty(); });
}

bool agrees_with_annotation(const Node& node, const ShardingRule& rule, Strategy strategy) {
  return matches(node.op, rule, strategy, node.annotation.layer, node.annotation.uses);
}

void check_annotations(const AxisState& state, DiagnosticSink& diagnostics) {
  const Graph& graph = state.graph();
  check_shared_weights(graph, diagnostics);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.annotation.empty() || node.phase != Phase::kForward || !state.ruled(i).has_rule) continue;
    pinned_strategies(state, i, diagnostics);
  }
}

void apply_annotations(AxisState& state, DiagnosticSink& diagnostics) {
  const Graph& graph = state.graph();
  if (!has_annotations(graph)) return;
  check_shared_weights(graph, diagnostics);
  std::vector<std::vector<Use>> all_uses = uses(graph);
  std::set<ValueId> leaves;
  for (const Node& node : graph.nodes) {
    if (is_leaf(node.op)) leaves.insert(node.results.begin(), node.results.end());
    if (node.op == OpKind::kCast && leaves.count(node.operands[0])) leaves.insert(node.results[0]);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.annotation.empty() || node.phase != Phase::kForward || !state.ruled(i).has_rule) continue;
    const Annotation& annotation = node.annotation;
    Strategy natural = state.chosen(i);
    if (matches(state, i, natural, annotation.layer, annotation.uses)) continue;
    std::vector<std::optional<Placement>> operands;
    for (ValueId operand : node.operands) operands.push_back(state.made(operand));
    std::vector<Strategy> legal = pinned_strategies(state, i, diagnostics);
    if (!legal.empty()) {
      // Of equals the one with the most blocks: q, k, v as [3, heads, head_dim] is not split by the 3.
      std::stable_sort(legal.begin(), legal.end(),
                       [&](Strategy a, Strategy b) { return num_blocks(state, i, a) > num_blocks(state, i, b); });
      Strategy pinned = state.cheapest(i, legal, operands);
      warn_if_undone(state, i, natural, pinned, all_uses, leaves, diagnostics);
      state.choose(i, pinned);
    }
  }
}

}  // namespace tpc

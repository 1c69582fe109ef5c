#include "passes/strategies/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>

namespace tpc {

TensorParallelRules::TensorParallelRules(const AxisState& state, DiagnosticSink& diagnostics, bool sequence_parallel,
                                         const std::vector<int64_t>& sequence_dims)
    : state_(state),
      diagnostics_(diagnostics),
      sequence_parallel_(sequence_parallel),
      sequence_dims_(sequence_dims),
      lookahead_(state, [this](size_t node) { return attention(node); }) {}

std::optional<Strategy> TensorParallelRules::choose(size_t node,
                                                    const std::vector<std::optional<Placement>>& operands) {
  switch (state_.graph().nodes[node].op) {
    case OpKind::kContract:
      return choose_linear(node, operands);
    case OpKind::kAttention: {
      Strategy strategy = attention(node).value_or(Strategy::replicate());
      if (state_.why_illegal(node, strategy)) {
        // Its projections say the same where they are linears.
        if (!diagnostics_.has_errors()) report_too_small(node, state_.graph().nodes[node].operands[0], 2, 1);
        return Strategy::replicate();
      }
      return strategy;
    }
    case OpKind::kEmbedding:
      return choose_embedding(node);
    default:
      return std::nullopt;
  }
}

/// Under sequence parallelism the residual stream is split along the sequence; a linear gathers it.
bool TensorParallelRules::is_stream(size_t node, const std::optional<Placement>& input) const {
  ValueId value = state_.graph().nodes[node].operands[0];
  return sequence_parallel_ && input && input->is_shard_of(sequence_dims_[value.position()]);
}

Strategy TensorParallelRules::choose_linear(size_t node, const std::vector<std::optional<Placement>>& operands) {
  const std::optional<Placement>& input = operands[0];
  const std::vector<Factor>& factors = state_.ruled(node).rule.factors;
  bool stream = is_stream(node, input);
  if (input && input->is_shard() && !stream) {
    // Row-parallel when the split dimension is contracted; otherwise (a batch-like dimension) it is carried through.
    for (size_t f = 0; f < factors.size(); ++f) {
      const std::optional<Factor::Use>& use = factors[f].operands[0];
      Strategy strategy = Strategy::factor(static_cast<int>(f), input->unit);
      if (use && use->dim == input->dim && !state_.why_illegal(node, strategy)) return strategy;
    }
  }
  if (std::optional<Strategy> found = column(node)) return *found;
  // A layer of its own keeps the tokens split; one beside column-parallel siblings (K and V beside the queries) uses
  // the input that is gathered for them.
  if (stream && !has_column_sibling(node)) {
    for (size_t f = 0; f < factors.size(); ++f) {
      if (factors[f].operands[0] && factors[f].operands[0]->dim == input->dim)
        return Strategy::factor(static_cast<int>(f));
    }
  }
  return Strategy::replicate();
}

bool TensorParallelRules::has_column_sibling(size_t node) {
  ValueId input = state_.graph().nodes[node].operands[0];
  for (const Use& use : lookahead_.uses_of(input)) {
    const Node& sibling = state_.graph().nodes[static_cast<size_t>(use.node)];
    bool linear = sibling.op == OpKind::kContract && sibling.phase == Phase::kForward && use.operand == 0;
    if (linear && static_cast<size_t>(use.node) != node && column(static_cast<size_t>(use.node))) return true;
  }
  return false;
}

std::optional<Strategy> TensorParallelRules::column(size_t node) {
  const Node& source = state_.graph().nodes[node];
  const std::vector<Factor>& factors = state_.ruled(node).rule.factors;
  std::optional<std::pair<int64_t, int64_t>> too_small;  // dimension and unit
  for (size_t f = 0; f < factors.size(); ++f) {
    const Factor& factor = factors[f];
    if (factor.operands[0] || !factor.operands[1] || !factor.results[0]) continue;
    std::optional<int64_t> unit = lookahead_.absorbed(source.results[0], factor.results[0]->dim);
    if (!unit) continue;
    Strategy strategy = Strategy::factor(static_cast<int>(f), *unit);
    if (!state_.why_illegal(node, strategy)) return strategy;
    if (!too_small) too_small = {factor.results[0]->dim, *unit};
  }
  if (too_small) report_too_small(node, source.results[0], too_small->first, too_small->second);
  return std::nullopt;
}

/// By kv heads where they divide evenly or every query head has its own; otherwise by query heads, K and V whole.
std::optional<Strategy> TensorParallelRules::attention(size_t node) const {
  const Node& source = state_.graph().nodes[node];
  if (source.op != OpKind::kAttention) return std::nullopt;
  const RuledNode& ruled = state_.ruled(node);
  int64_t heads = ruled.operand_shapes[0][2];
  int64_t kv_heads = ruled.operand_shapes[1][2];
  Strategy by_kv = Strategy::factor(ruled.rule.find_factor("kv"));
  Strategy by_heads = Strategy::factor(ruled.rule.find_factor("heads"));
  if (heads == kv_heads) return by_kv;
  // What the axes before this one left of the kv heads.
  int64_t kv_left = kv_heads;
  for (size_t axis = 0; axis < state_.axis(); ++axis) {
    bool split =
        user_axis(state_.graph().mesh.axes()[axis].name) == user_axis(state_.graph().mesh.axes()[state_.axis()].name);
    if (split && kv_left % state_.graph().mesh.axis_size(axis) == 0) kv_left /= state_.graph().mesh.axis_size(axis);
  }
  return kv_left % state_.size() == 0 ? by_kv : by_heads;
}

Strategy TensorParallelRules::choose_embedding(size_t node) {
  Strategy by_rows = Strategy::factor(state_.ruled(node).rule.find_factor("v"));
  if (!state_.why_illegal(node, by_rows)) return by_rows;
  report_too_small(node, state_.graph().nodes[node].operands[1], 0, 1);
  return Strategy::replicate();
}

void TensorParallelRules::report_too_small(size_t node, ValueId value, int64_t dim, int64_t unit) {
  const Graph& graph = state_.graph();
  const Node& source = graph.nodes[node];
  if (diagnostics_.has_any_at(graph.loc(source))) return;
  std::string_view axis = user_axis(graph.mesh.axes()[state_.axis()].name);
  int64_t wanted = 1;
  for (const MeshAxis& other : graph.mesh.axes()) {
    if (user_axis(other.name) == axis) wanted *= other.size;
  }
  const Value& split = graph.value(value);
  int64_t blocks = split.type.shape[static_cast<size_t>(dim)] / unit;
  std::string units = unit == 1 ? "" : fmt::format(" in units of {}", unit);
  std::string works = blocks == 1 ? fmt::format("only {} 1 works", axis) : fmt::format("{} 1 to {} work", axis, blocks);
  diagnostics_.error(graph.loc(source),
                     fmt::format("\"{}\" is split by {} ({}{}), too few for {} {}: every rank needs at least one; {}",
                                 source.layer, dim_name(split, dim), blocks, units, axis, wanted, works));
}

}  // namespace tpc

#include "passes/strategies/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"
#include "passes/strategies/annotations.h"
#include "passes/strategies/axis_state.h"
#include "passes/strategies/sub_axes.h"
#include "passes/strategies/tensor_parallel.h"
#include "passes/strategies/zero.h"

namespace tpc {
namespace {

/// For every value the dimension that runs along the sequence (dimension 1 of an input), or -1.
std::vector<int64_t> sequence_dims(const Graph& graph, const NodeRules& ruled) {
  std::vector<int64_t> dims(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op == OpKind::kInput && graph.value(node.results[0]).type.shape.size() >= 2) {
      dims[node.results[0].position()] = 1;
    }
    for (const Factor& factor : ruled[n].rule.factors) {
      bool along = false;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        along = along || (factor.operands[i] && factor.operands[i]->dim == dims[node.operands[i].position()]);
      }
      if (!along) continue;
      for (size_t r = 0; r < node.results.size(); ++r) {
        if (factor.results[r]) dims[node.results[r].position()] = factor.results[r]->dim;
      }
    }
  }
  return dims;
}

/// How a Partial value is completed on this axis: replicated, or scattered along the sequence where that is asked for.
class Completion {
 public:
  Completion(const AxisState& state, bool sequence_parallel, const std::vector<int64_t>& sequence_dims)
      : state_(state), sequence_parallel_(sequence_parallel), sequence_dims_(sequence_dims) {}

  std::optional<Placement> operator()(ValueId value) const {
    const std::optional<Placement>& made = state_.made(value);
    if (!made || !made->is_partial()) return made;
    const Shape& shape = state_.graph().value(value).type.shape;
    bool is_stream = sequence_dims_[value.position()] == 1 && shape.size() >= 3 && made->reduce == ReduceOp::kSum;
    return sequence_parallel_ && is_stream ? Placement::shard(1) : Placement::replicate();
  }

  std::vector<std::optional<Placement>> operands(const Node& node) const {
    std::vector<std::optional<Placement>> completed;
    for (ValueId operand : node.operands) completed.push_back((*this)(operand));
    return completed;
  }

 private:
  const AxisState& state_;
  bool sequence_parallel_;
  const std::vector<int64_t>& sequence_dims_;
};

/// Shared by both axes: a node that only passes tensors on, or works on each element, follows its operands.
void choose_light(AxisState& state, const Completion& complete, size_t node) {
  const Node& source = state.graph().nodes[node];
  std::optional<Strategy> pass = state.partial_pass(node);
  // Norms and other ops with saved operands complete the sum first: their results are more than their operand.
  bool covers_all =
      pass && state.ruled(node).rule.linear[static_cast<size_t>(pass->index)].operands.size() == source.operands.size();
  if (covers_all) {
    state.choose(node, *pass);
    return;
  }
  std::vector<std::optional<Placement>> operands = complete.operands(source);
  state.choose(node, state.cheapest(node, state.legal_strategies(node, operands), operands));
}

/// Gradients of contractions, attention and embeddings are split by the factor of their forward node.
void choose_backward_heavy(AxisState& state, const Completion& complete, size_t node, size_t forward) {
  Strategy strategy = state.chosen(forward);
  if (strategy.kind == Strategy::Kind::kFactor) {
    const Factor& factor = state.ruled(forward).rule.factors[static_cast<size_t>(strategy.index)];
    int same = state.ruled(node).rule.find_factor(factor.name);
    Strategy wanted = Strategy::factor(same, strategy.unit);
    if (same >= 0 && !state.why_illegal(node, wanted)) {
      state.choose(node, wanted);
      return;
    }
  } else if (std::optional<Strategy> pass = state.partial_pass(node)) {
    state.choose(node, *pass);
    return;
  }
  choose_light(state, complete, node);
}

/// The optimizer works where the parameter lies; sums of scalars stay partial until the end.
void choose_optimizer(AxisState& state, size_t node) {
  const Node& source = state.graph().nodes[node];
  bool any_partial = false;
  std::vector<std::optional<Placement>> operands;
  for (ValueId operand : source.operands) {
    std::optional<Placement> placement = state.made(operand);
    bool partial = placement && placement->is_partial();
    any_partial = any_partial || partial;
    operands.push_back(partial ? std::nullopt : placement);
  }
  const std::vector<LinearGroup>& linear = state.ruled(node).rule.linear;
  if (any_partial && linear.size() == 1 && linear[0].operands.size() == operands.size()) {
    state.choose(node, Strategy::linear(0));
    return;
  }
  state.choose(node, state.cheapest(node, state.legal_strategies(node, operands), operands));
}

/// Where each gradient is wanted: as its parameter lies. sum_squares of a gradient must agree with the update, so that
/// one conversion serves both.
void place_gradient_like_parameter(AxisState& state, size_t node, const std::vector<ValueId>& parameter_of_gradient) {
  const Node& source = state.graph().nodes[node];
  ValueId parameter = parameter_of_gradient[source.operands[0].position()];
  TPC_CHECK(parameter.is_valid(), "sum_squares in the optimizer reads no gradient");
  std::vector<std::optional<Placement>> operands{state.made(parameter)};
  state.choose(node, state.cheapest(node, state.legal_strategies(node, operands), operands));
}

std::vector<ValueId> parameters_of_gradients(const Graph& graph) {
  std::vector<ValueId> parameters(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kAdamW || node.op == OpKind::kSgd)
      parameters[node.operands[1].position()] = node.operands[0];
  }
  return parameters;
}

std::vector<int> forward_nodes(const Graph& graph) {
  std::vector<int> producer = producers(graph);
  std::vector<int> forward(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ValueId origin = graph.nodes[i].differentiates;
    if (origin.is_valid()) forward[i] = producer[origin.position()];
  }
  return forward;
}

/// What the walks over every axis share: computed once.
struct TrainingGraph {
  std::vector<int> forward;                    ///< for a gradient node the node it differentiates, else -1
  std::vector<ValueId> parameter_of_gradient;  ///< for the gradient of a parameter that parameter
  std::vector<int64_t> sequence;               ///< sequence_dims
};

/// Backward and optimizer nodes, and forward nodes without a rule of their own.
void choose_following(AxisState& state, const Completion& complete, const TrainingGraph& steps, size_t i) {
  const Node& node = state.graph().nodes[i];
  bool follows_forward = steps.forward[i] >= 0 && (op_def(node.op).heavy || node.op == OpKind::kEmbeddingGrad);
  if (node.op == OpKind::kSumSquares && node.phase == Phase::kOptimizer) {
    place_gradient_like_parameter(state, i, steps.parameter_of_gradient);
  } else if (node.phase == Phase::kOptimizer) {
    choose_optimizer(state, i);
  } else if (follows_forward) {
    choose_backward_heavy(state, complete, i, static_cast<size_t>(steps.forward[i]));
  } else {
    choose_light(state, complete, i);
  }
}

void walk_data_axis(AxisState& state, const PassContext& context, const TrainingGraph& steps, ChosenShardings& result) {
  const Graph& graph = state.graph();
  Completion complete(state, /*sequence_parallel=*/false, steps.sequence);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == OpKind::kInput) {
      const Shape& shape = graph.value(node.results[0]).type.shape;
      if (!shape.empty() && shape[0] < state.size()) {
        context.diagnostics.error(
            graph.loc(node),
            fmt::format("the batch of \"{}\" is split over the data axis ({} rows), too few for dp {}: every rank "
                        "needs at least one; {}",
                        graph.value(node.results[0]).name, shape[0], state.size(),
                        shape[0] == 1 ? "only dp 1 works" : fmt::format("dp 1 to {} work", shape[0])));
      }
      Placement by_batch = shape.empty() ? Placement::replicate() : Placement::shard(0);
      state.set_made(node.results[0], by_batch);
      result.leaves[node.results[0].position()]->placements[state.axis()] = by_batch;
      continue;
    }
    if (node.op == OpKind::kParameter || node.op == OpKind::kState) {
      state.set_made(node.results[0], Placement::replicate());
      continue;
    }
    if (!state.ruled(i).has_rule) continue;
    choose_following(state, complete, steps, i);
  }
}

/// Sequence parallelism splits the sequence over all of the tensor-parallel axis.
void check_sequence(const AxisState& state, DiagnosticSink& diagnostics) {
  const Graph& graph = state.graph();
  std::string_view axis = user_axis(graph.mesh.axes()[state.axis()].name);
  int64_t ranks = 1;
  for (const MeshAxis& other : graph.mesh.axes()) {
    if (user_axis(other.name) == axis) ranks *= other.size;
  }
  for (const Node& node : graph.nodes) {
    if (node.op != OpKind::kInput) continue;
    const Value& value = graph.value(node.results[0]);
    if (value.type.shape.size() < 2 || value.type.shape[1] >= ranks) continue;
    diagnostics.error(graph.loc(node),
                      fmt::format("sequence of \"{}\" does not split over {} {}: wanted at least {}, found {}; without "
                                  "--sequence-parallel it need not be split",
                                  value.name, axis, ranks, ranks, value.type.shape[1]));
  }
}

/// Forward by the rules of tensor_parallel.h, then the user's annotations, then everything that follows from them.
void walk_tensor_axis(AxisState& state, const PassContext& context, const TrainingGraph& steps) {
  const Graph& graph = state.graph();
  bool sequence_parallel = context.options.sequence_parallel;
  if (sequence_parallel) {
    check_sequence(state, context.diagnostics);
    context.diagnostics.throw_if_errors();
  }
  Completion complete(state, sequence_parallel, steps.sequence);
  TensorParallelRules rules(state, context.diagnostics, sequence_parallel, steps.sequence);

  auto place_leaf = [&](const Node& node) {
    if (node.op == OpKind::kInput) state.set_made(node.results[0], Placement::replicate());
    if (node.op == OpKind::kFill) state.set_made(node.results[0], Placement::replicate());
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    place_leaf(node);
    if (node.phase != Phase::kForward || !state.ruled(i).has_rule || state.waits_for_use(i)) continue;
    std::optional<Strategy> ruled = rules.choose(i, complete.operands(node));
    if (ruled) {
      state.choose(i, *ruled);
    } else {
      choose_light(state, complete, i);
    }
  }

  apply_annotations(state, context.diagnostics);

  state.clear_placements();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    place_leaf(node);
    if (!state.ruled(i).has_rule || state.waits_for_use(i)) continue;
    if (node.phase == Phase::kForward) {
      state.choose(i, state.chosen(i));
    } else {
      choose_following(state, complete, steps, i);
    }
  }
}

}  // namespace

DeviceMesh megatron_mesh(const Graph& graph, const DeviceMesh& mesh, const CompileOptions& /*options*/) {
  return split_for_kv_heads(graph, mesh);
}

ChosenShardings megatron_choose(const Graph& graph, const PassContext& context) {
  ChosenShardings result;
  result.nodes.assign(graph.nodes.size(), std::vector<Strategy>(graph.mesh.num_axes()));
  result.leaves.resize(graph.values.size());
  result.kept.resize(graph.values.size());
  result.via.resize(graph.values.size());
  NodeRules ruled(graph);
  TrainingGraph steps{forward_nodes(graph), parameters_of_gradients(graph), sequence_dims(graph, ruled)};
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kInput) result.leaves[node.results[0].position()] = TensorSharding::replicated(graph.mesh);
  }
  for (size_t axis = 0; axis < graph.mesh.num_axes(); ++axis) {
    AxisState state(graph, ruled, result.nodes, axis);
    if (user_axis(graph.mesh.axes()[axis].name) == "dp") {
      walk_data_axis(state, context, steps, result);
    } else {
      walk_tensor_axis(state, context, steps);
    }
    context.diagnostics.throw_if_errors();
  }
  split_over_data(graph, ruled, context.options.zero_stage, result);
  return result;
}

}  // namespace tpc

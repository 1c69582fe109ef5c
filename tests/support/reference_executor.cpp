#include "tests/support/reference_executor.h"

#include <fmt/format.h>

#include <optional>

#include "compiler/core/check.h"
#include "compiler/ir/move_ops.h"
#include "compiler/sharding/conversion_graph.h"

namespace tpc::testing {
ReferenceExecutor::ReferenceExecutor(Graph graph) : graph_(std::move(graph)), buffers_(graph_.values.size()) {
  for (size_t i = 0; i < graph_.values.size(); ++i) ids_[graph_.values[i].name] = {static_cast<int32_t>(i)};
  for (const Node& node : graph_.nodes) {
    if (node.op != OpKind::kState) continue;
    const Value& state = graph_.value(node.results[0]);
    set_leaf(state.name, constant_tensor(state.type, 0));
  }
}

void ReferenceExecutor::set_leaf(std::string_view name, const GlobalTensor& tensor) {
  ValueId id = find(name);
  const Value& leaf = graph_.value(id);
  TPC_CHECK(leaf.type == tensor.type, "\"{}\" is {}, not {}", name, to_string(leaf.type), to_string(tensor.type));
  buffers_[id.position()] = shard_tensor(tensor, leaf.sharding, graph_.mesh);
}

void ReferenceExecutor::set_parameters(uint64_t seed, double std) {
  for (const Node& node : graph_.nodes) {
    if (node.op != OpKind::kParameter) continue;
    const Value& parameter = graph_.value(node.results[0]);
    set_leaf(parameter.name, random_normal_tensor(parameter.type, seed, parameter.name, std));
  }
}

void ReferenceExecutor::run_step(StepContext context) {
  for (const Node& node : graph_.nodes) {
    try {
      run_node(node, context);
    } catch (const SimulationError& error) {
      throw SimulationError(fmt::format("{} of \"{}\": {}", op_def(node.op).name, node.layer, error.what()));
    }
  }
}

GlobalTensor ReferenceExecutor::value(std::string_view name) const { return assembled(find(name)); }

GlobalTensor ReferenceExecutor::output(std::string_view name) const {
  for (const Node& node : graph_.nodes) {
    if (node.op == OpKind::kOutput && node.attributes.get_string("name") == name) return assembled(node.operands[0]);
  }
  TPC_UNREACHABLE("no output \"{}\"", name);
}

std::vector<std::string> ReferenceExecutor::output_names() const {
  std::vector<std::string> names;
  for (const Node& node : graph_.nodes) {
    if (node.op == OpKind::kOutput) names.push_back(node.attributes.get_string("name"));
  }
  return names;
}

ValueId ReferenceExecutor::find(std::string_view name) const {
  auto found = ids_.find(name);
  TPC_CHECK(found != ids_.end(), "no value \"{}\"", name);
  return found->second;
}

GlobalTensor ReferenceExecutor::assembled(ValueId id) const {
  const Value& value = graph_.value(id);
  TPC_CHECK(!buffers_[id.position()].empty(), "\"{}\" has no value yet", value.name);
  return assemble_tensor(value.type, buffers_[id.position()], value.sharding, graph_.mesh);
}

void ReferenceExecutor::run_node(const Node& node, const StepContext& context) {
  for (ValueId operand : node.operands) {
    TPC_CHECK(!buffers_[operand.position()].empty(), "\"{}\" is used before it is made", graph_.value(operand).name);
  }
  if (is_leaf(node.op)) {
    TPC_CHECK(!buffers_[node.results[0].position()].empty(), "\"{}\" is not set", graph_.value(node.results[0]).name);
    return;
  }
  check_operands(node);
  if (node.op == OpKind::kOutput) return;
  if (node.op == OpKind::kUpdate) return run_update(node);
  if (node.op == OpKind::kRedistribute) {
    const Value& to = graph_.value(node.results[0]);
    return run_moves(node, redistribute(to.type.shape, node.operand_shardings[0], to.sharding, graph_.mesh));
  }
  if (std::optional<MoveKind> kind = move_kind(node.op)) {
    Move move{*kind, node.attributes.get_ints("axes"), node.operand_shardings[0],
              graph_.value(node.results[0]).sharding};
    return run_moves(node, std::span(&move, 1));
  }
  run_reference(node, context);
}

void ReferenceExecutor::run_reference(const Node& node, const StepContext& context) {
  const OpDef& def = op_def(node.op);
  TPC_CHECK(def.reference != nullptr, "{} has no reference kernel", def.name);
  TypedOp op{def, node.attributes, operand_types(graph_, node), result_types(graph_, node)};
  std::vector<const RankTensors*> operands;
  for (ValueId operand : node.operands) operands.push_back(&buffers_[operand.position()]);
  std::vector<TensorSharding> shardings;
  for (ValueId result : node.results) shardings.push_back(graph_.value(result).sharding);
  std::vector<RankTensors> made = run_on_ranks(op, operands, shardings, graph_.mesh, context);
  for (size_t i = 0; i < made.size(); ++i) buffers_[node.results[i].position()] = std::move(made[i]);
}

void ReferenceExecutor::run_moves(const Node& node, std::span<const Move> moves) {
  RankTensors parts = buffers_[node.operands[0].position()];
  const Shape& shape = graph_.value(node.operands[0]).type.shape;
  for (const Move& move : moves) parts = apply_move(move, shape, parts, graph_.mesh);
  buffers_[node.results[0].position()] = std::move(parts);
}

void ReferenceExecutor::run_update(const Node& node) {
  const RankTensors& made = buffers_[node.operands[1].position()];
  RankTensors& target = buffers_[node.operands[0].position()];
  for (size_t rank = 0; rank < made.size(); ++rank) {
    if (made[rank].region == target[rank].region) continue;
    throw SimulationError(fmt::format("rank {} holds another part of the target than of its new value", rank));
  }
  target = made;
}

// From Stage::kPlaced on a node says how it wants its operands; a difference is a redistribute that is missing.
void ReferenceExecutor::check_operands(const Node& node) const {
  for (size_t i = 0; i < node.operand_shardings.size(); ++i) {
    const Value& operand = graph_.value(node.operands[i]);
    TensorSharding wanted = canonical(operand.type.shape, node.operand_shardings[i], graph_.mesh);
    TensorSharding made = canonical(operand.type.shape, operand.sharding, graph_.mesh);
    if (wanted == made) continue;
    throw SimulationError(
        fmt::format("operand {} (\"{}\") is {}, wanted {}", i, operand.name, to_string(made), to_string(wanted)));
  }
}

}  // namespace tpc::testing

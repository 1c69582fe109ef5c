#include "compiler/ir/printer.h"

#include <fmt/format.h>

#include <algorithm>

namespace tpc {
namespace {

std::string quoted(const std::string& text) { return to_string(Attribute{text}); }

std::string id_text(ValueId id) { return fmt::format("%{}", id.index); }

std::string value_text(const Graph& graph, ValueId id) {
  if (!id.is_valid() || id.position() >= graph.values.size()) return id_text(id);
  const Value& value = graph.value(id);
  std::string text = fmt::format("{} {} : {}", id_text(id), quoted(value.name), to_string(value.type));
  if (!value.dim_names.empty()) {
    text += " dims (";
    for (size_t i = 0; i < value.dim_names.size(); ++i) text += (i == 0 ? "" : ", ") + quoted(value.dim_names[i]);
    text += ")";
  }
  if (!value.sharding.placements.empty()) text += " @ " + to_string(value.sharding);
  if (!value.kept.empty()) text += " kept";
  for (const TensorSharding& form : value.kept) text += " " + to_string(form);
  for (size_t phase = 0; phase < value.via.size(); ++phase) {
    if (!value.via[phase].empty()) text += fmt::format(" via {}", to_string(static_cast<Phase>(phase)));
    for (const TensorSharding& form : value.via[phase]) text += " " + to_string(form);
  }
  if (value.local_shape) text += " local " + to_string(*value.local_shape);
  return text;
}

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, to_string(value));
  }
  return " {" + text + "}";
}

std::string annotation_text(const Annotation& annotation) {
  std::string uses;
  for (const auto& [use, placement] : annotation.uses) {
    uses += fmt::format("{}{} {}", uses.empty() ? "" : ", ", quoted(use), to_string(placement));
  }
  return fmt::format(" pin {} {{{}}} at {}", quoted(annotation.layer), uses, quoted(annotation.pointer));
}

// JSON pointers stand as they are unless an odd key would break the line.
std::string origin_text(const std::string& origin) {
  bool is_plain = origin.front() == '/' && origin.back() != ' ' &&
                  std::none_of(origin.begin(), origin.end(),
                               [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  return " # " + (is_plain ? origin : quoted(origin));
}

}  // namespace

std::string print(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId id : node.results) text += (text.empty() ? "" : ", ") + value_text(graph, id);
  if (!node.results.empty()) text += " = ";
  text += op_name(node.op);
  for (size_t i = 0; i < node.operands.size(); ++i) text += (i == 0 ? " " : ", ") + id_text(node.operands[i]);
  if (!node.attributes.items().empty()) text += attributes_text(node.attributes);
  if (!node.operand_shardings.empty()) text += " uses";
  for (const TensorSharding& sharding : node.operand_shardings) text += " " + to_string(sharding);
  text += fmt::format(" {}", to_string(node.phase));
  if (!node.layer.empty()) text += " " + quoted(node.layer);
  if (node.differentiates.is_valid()) text += " of " + id_text(node.differentiates);
  if (node.annotation != Annotation{}) text += annotation_text(node.annotation);
  if (!node.why.empty()) text += " why " + quoted(node.why);
  if (!node.origin.empty()) text += origin_text(node.origin);
  return text;
}

std::string print(const Graph& graph) {
  std::string text = "graph " + quoted(graph.name);
  if (!graph.source_file.empty()) text += " from " + quoted(graph.source_file);
  text += "\n";
  if (graph.precision != Precision{}) text += fmt::format("precision {}\n", quoted(to_string(graph.precision)));
  if (graph.mesh.num_axes() > 0) text += to_string(graph.mesh) + "\n";
  if (graph.loss.is_valid()) text += fmt::format("loss {}\n", id_text(graph.loss));
  if (graph.proof) {
    const SearchProof& proof = *graph.proof;
    text +=
        fmt::format("proof {} price {} bound {} memory {} limit {} decisions {} choices {}\n", quoted(proof.objective),
                    proof.price, proof.bound, proof.memory, proof.memory_limit, proof.decisions, proof.choices);
  }
  std::vector<bool> is_made(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    text += print(graph, node) + "\n";
    for (ValueId id : node.results) {
      if (id.is_valid() && id.position() < is_made.size()) is_made[id.position()] = true;
    }
  }
  for (size_t i = 0; i < is_made.size(); ++i) {
    if (!is_made[i]) text += value_text(graph, {static_cast<int32_t>(i)}) + "\n";
  }
  return text;
}

}  // namespace tpc

#include "compiler/frontend/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/input_file.h"
#include "compiler/core/source_text.h"
#include "compiler/frontend/json_text.h"
#include "compiler/frontend/layer_list.h"
#include "compiler/frontend/live_graph.h"
#include "compiler/frontend/optimizer_json.h"
#include "compiler/frontend/precision_json.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

constexpr std::string_view kFormat = "tpc-model";
constexpr int64_t kVersion = 1;

const std::vector<std::string> kModelKeys = {"format", "version", "name", "comment",   "dims",
                                             "inputs", "layers",  "loss", "optimizer", "precision"};

// Runs `read`; what it throws goes to the sink.
template <class Read>
bool collect(DiagnosticSink& sink, const Read& read) {
  try {
    read();
    return true;
  } catch (const UserError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) sink.add(diagnostic);
  } catch (const DependsOnMistake&) {
  }
  return false;
}

// As somebody works through them: from top to bottom. Ends in a note when there may be more.
std::vector<Diagnostic> in_file_order(const std::vector<Diagnostic>& diagnostics, const std::string& text) {
  SourceText source(text);
  std::vector<std::pair<size_t, Diagnostic>> placed;
  for (const Diagnostic& diagnostic : diagnostics) {
    auto span = source.locate(diagnostic.loc.pointer, diagnostic.loc.at_key);
    placed.emplace_back(span ? span->offset : 0, diagnostic);
  }
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Diagnostic> out;
  for (auto& [offset, diagnostic] : placed) out.push_back(std::move(diagnostic));
  if (out.size() >= kMostErrors) {
    out.push_back({Severity::kNote,
                   {},
                   fmt::format("{} mistakes in the layers end the list; there may be more", kMostErrors),
                   {}});
  }
  return out;
}

// A wrong format or version ends the reading: nothing that follows can be trusted to mean what it says.
void check_format(const JsonNode& model) {
  model.expect_object();
  JsonNode format = model.required("format", "the model");
  if (format.as_string() == "tpc-plan") format.fail("this is a plan; wanted a model file, \"format\": \"tpc-model\"");
  if (format.as_string() != kFormat) format.fail_type(fmt::format("\"{}\"", kFormat));
  JsonNode version = model.required("version", "the model");
  if (version.as_int(INT64_MIN, INT64_MAX) != kVersion) {
    version.fail(fmt::format("model file version {}; this program reads version {}", version.found(), kVersion));
  }
}

void read_name(const JsonNode& model, Graph& graph) {
  JsonNode node = model.required("name", "the model");
  graph.name = node.as_string();
  if (!is_name(graph.name)) {
    node.fail(fmt::format("model name \"{}\": wanted letters, digits, \"_\" and \"-\", a letter first", graph.name));
  }
}

void read_input(const std::string& name, const JsonNode& node, const SourceLoc& name_loc, ModelContext& model) {
  if (!is_name(name)) {
    throw UserError(name_loc,
                    fmt::format("input name \"{}\": wanted letters, digits, \"_\" and \"-\", a letter first", name));
  }
  std::string quoted = fmt::format("input \"{}\"", name);
  node.expect_object();
  if (node.report_unknown_keys({"shape", "dtype", "comment"}, quoted, model.sink)) throw DependsOnMistake{};
  Dims dims = model.sizes.resolve_list(node.required("shape", quoted));
  bool is_int = node.required("dtype", quoted).as_word({"int32", "float32"}) == "int32";
  DType dtype = is_int ? DType::kI32 : DType::kF32;

  Node input;
  input.op = OpKind::kInput;
  input.layer = name;
  input.origin = node.pointer();
  input.attributes = {{"shape", shape_of(dims)}, {"dtype", std::string(to_string(dtype))}};
  Tensor tensor{add_value(model.graph, name, {dtype, shape_of(dims)}), dtype, dims};
  for (const Dim& dim : dims) model.graph.value(tensor.id).dim_names.push_back(dim.name);
  model.values.emplace(name, tensor.id);
  input.results = {tensor.id};
  model.graph.nodes.push_back(std::move(input));
  model.names.declare(name, {NameEntry::Kind::kInput, tensor, node.pointer()});
}

// Data parallelism splits dimension 0 of every input, so it is the same size everywhere.
void check_batch(const JsonNode& inputs, const ModelContext& model) {
  const Node& first = model.graph.nodes[0];
  int64_t batch = model.graph.value(first.results[0]).type.shape[0];
  for (const Node& node : model.graph.nodes) {
    const Value& value = model.graph.value(node.results[0]);
    if (value.type.shape[0] == batch) continue;
    auto place = inputs.find(value.name)->required("shape", "");
    place.fail(fmt::format("dimension 0 of every input is the batch: \"{}\" has {}, \"{}\" has {}", value.name,
                           value.type.shape[0], model.graph.value(first.results[0]).name, batch));
  }
}

void read_inputs(const JsonNode& inputs, ModelContext& model) {
  if (inputs.members().empty()) inputs.fail_type("at least one input");
  for (const auto& [name, node] : inputs.members()) {
    size_t values = model.graph.values.size();
    collect(model.sink, [&] { read_input(name, node, inputs.key_loc(name), model); });
    if (model.graph.values.size() == values) {
      model.names.declare(name, {NameEntry::Kind::kBroken, {}, node.pointer()});
    }
  }
  if (!model.graph.nodes.empty()) check_batch(inputs, model);
}

// The last layer of one number: what a missing or wrong "loss" most likely meant.
std::string scalar_layer(const Graph& graph) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (ValueId result : node->results) {
      const Value& value = graph.value(result);
      if (value.type.shape.empty() && value.name == node->layer) return value.name;
    }
  }
  return "";
}

void read_loss(const JsonNode& root, ModelContext& model) {
  std::string scalar = scalar_layer(model.graph);
  auto node = root.find("loss");
  if (!node) {
    std::string way_out = fmt::format("; add \"loss\": \"{}\"", scalar);
    if (scalar.empty()) way_out = model.sink.has_errors() ? "" : "; end in \"cross_entropy\" or \"mean_squared_error\"";
    root.fail("the model needs \"loss\", the name of a layer of one number" + way_out);
  }
  LayerScope scope;
  LayerBuilder reader(model, scope, root, "the model");
  Tensor loss = reader.tensor(*node, std::nullopt);
  if (!loss.dims.empty() || loss.dtype != DType::kF32) {
    std::string way_out = scalar.empty() ? "; end in \"cross_entropy\" or \"mean_squared_error\""
                                         : fmt::format("; did you mean \"{}\"?", scalar);
    node->fail(fmt::format("\"loss\" must be a layer of one number, and {}{}", shape_clause(*node, loss), way_out));
  }
  model.graph.loss = loss.id;
  Node output;
  output.op = OpKind::kOutput;
  for (const Node& maker : model.graph.nodes) {
    if (maker.results.empty() || maker.results[0] != loss.id) continue;
    output.layer = maker.layer;
    output.origin = maker.origin;
  }
  output.operands = {loss.id};
  output.attributes = {{"name", std::string("loss")}};
  model.graph.nodes.push_back(std::move(output));
}

// The document in sorted keys with the overrides in their place.
std::string normalised(nlohmann::json document, const ModelOverrides& overrides) {
  for (const auto& [name, size] : overrides.dims) document["dims"][name] = size;
  if (overrides.precision) document["precision"] = precision_json(*overrides.precision);
  return document.dump();
}

}  // namespace

Model parse_model(const std::string& text, const std::string& file, const ModelOverrides& overrides,
                  DiagnosticSink& sink) {
  nlohmann::json document = parse_json(text, file);
  JsonNode root(document, file, "the model");
  check_format(root);

  DiagnosticSink mistakes;
  ModelContext model{.graph = {}, .sizes = {}, .names = {}, .sink = mistakes, .values = {}};
  model.graph.source_file = file;
  root.report_unknown_keys(kModelKeys, "the model", mistakes);
  collect(mistakes, [&] { read_name(root, model.graph); });
  nlohmann::json no_dims = nlohmann::json::object();
  auto dims = root.find("dims");
  bool has_sizes = collect(mistakes, [&] {
    model.sizes.read(dims ? *dims : JsonNode(no_dims, file, "\"dims\""), overrides.dims, mistakes);
  });
  if (!has_sizes) model.sizes.mark_broken();
  bool has_inputs = collect(mistakes, [&] { read_inputs(root.required("inputs", "the model"), model); });
  if (!has_inputs) model.names.mark_broken("");
  bool has_layers = false;
  collect(mistakes, [&] { has_layers = LayerListReader(model).read(root.required("layers", "the model")); });
  if (has_layers) collect(mistakes, [&] { read_loss(root, model); });

  Model result;
  if (auto precision = root.find("precision")) {
    collect(mistakes, [&] { model.graph.precision = read_precision(*precision, mistakes); });
  }
  if (overrides.precision) model.graph.precision = *overrides.precision;
  if (auto optimizer = root.find("optimizer")) result.optimizer = read_optimizer(*optimizer, mistakes);
  if (mistakes.has_errors()) throw UserError(in_file_order(mistakes.diagnostics(), text));

  if (dims) model.sizes.warn_unused(*dims, mistakes);
  result.graph = drop_unused(std::move(model.graph), mistakes);
  for (const Diagnostic& warning : mistakes.diagnostics()) sink.add(warning);
  result.json = normalised(std::move(document), overrides);
  return result;
}

Model parse_embedded_model(const std::string& text, const std::string& plan_file, DiagnosticSink& sink) {
  try {
    return parse_model(text, plan_file, {}, sink);
  } catch (const UserError& error) {
    std::vector<Diagnostic> in_plan = error.diagnostics();
    for (Diagnostic& diagnostic : in_plan) {
      diagnostic.loc.pointer = "/model" + diagnostic.loc.pointer;
      for (Note& note : diagnostic.notes) note.loc.pointer = "/model" + note.loc.pointer;
    }
    throw UserError(std::move(in_plan));
  }
}

Model load_model(const std::string& path, const ModelOverrides& overrides, DiagnosticSink& sink) {
  return parse_model(read_file(path, "a model file"), path, overrides, sink);
}

}  // namespace tpc

// Model files as a whole: names, blocks, overrides, what is left out, and the models that ship.
#include "compiler/frontend/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

const std::string kHead =
    R"({"format": "tpc-model", "version": 1, "name": "m", "dims": {"batch": 2, "hidden": 8, "layers": 3},
  "inputs": {"x": {"shape": ["batch", "hidden"], "dtype": "float32"}, "t": {"shape": ["batch", "hidden"], "dtype": "float32"}},
  "layers": [)";
const std::string kTail =
    R"({"name": "loss", "op": "mean_squared_error", "input": "y", "targets": "t"}], "loss": "loss"})";

Model parse(const std::string& layers, DiagnosticSink& sink, const ModelOverrides& overrides = {}) {
  return parse_model(kHead + layers + "," + kTail, "m.json", overrides, sink);
}

std::map<std::string, Shape> shapes(const Graph& graph) {
  std::map<std::string, Shape> out;
  for (const Value& value : graph.values) out[value.name] = value.type.shape;
  return out;
}

int64_t num_parameters(const Graph& graph) {
  int64_t count = 0;
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kParameter) count += num_elements(graph.value(node.results[0]).type.shape);
  }
  return count;
}

// Every node's types are what its op says, operands come before, and a place is known.
void check_typed(const Graph& graph) {
  std::vector<int> made = producers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    CAPTURE(node.layer);
    CHECK(op_def(node.op).infer_types({node.attributes, operand_types(graph, node), {}}) == result_types(graph, node));
    for (ValueId operand : node.operands) CHECK(made[operand.position()] < static_cast<int>(i));
    CHECK_FALSE(node.origin.empty());
    CHECK(node.phase == Phase::kForward);
  }
}

TEST_CASE("model: blocks carry a value from one repetition to the next") {
  DiagnosticSink sink;
  Graph graph = parse(R"({"repeat": "layers", "name": "block{i}", "carry": "h", "from": "x", "layers": [
      {"name": "fc", "op": "linear", "input": "h", "out": "hidden"}, {"name": "h", "op": "add", "inputs": ["h", "fc", "x"]}]},
      {"name": "first", "op": "relu", "input": "block0.h"},
      {"name": "y", "op": "add", "inputs": ["block{last}.h", "first"]})",
                      sink)
                    .graph;
  check_typed(graph);
  auto all = shapes(graph);
  CHECK(all.count("block2.fc.weight") == 1);
  CHECK(all.count("block3.fc.weight") == 0);
  for (const Node& node : graph.nodes) {
    if (node.results.empty()) continue;
    const std::string& name = graph.value(node.results[0]).name;
    auto operand = [&](size_t i) { return graph.value(node.operands[i]).name; };
    if (name == "block0.fc") CHECK(operand(0) == "x");
    if (name == "block2.fc") CHECK(operand(0) == "block1.h");
    if (name == "block2.h") CHECK(operand(0) == "block1.h");
    if (name == "y") CHECK(operand(0) == "block2.h");
    if (name == "block1.fc") CHECK(node.origin == "/layers/0/layers/0");
  }
}

TEST_CASE("model: blocks nest, and inner names hide outer ones") {
  DiagnosticSink sink;
  Graph graph = parse(R"({"name": "fc", "op": "relu", "input": "x"},
      {"repeat": 2, "name": "a{i}", "carry": "h", "from": "fc", "layers": [
        {"repeat": 2, "name": "b{i}", "carry": "g", "from": "h", "layers": [
          {"name": "fc", "op": "linear", "input": "g", "out": "hidden"}, {"name": "g", "op": "relu", "input": "fc"}]},
        {"name": "h", "op": "add", "inputs": ["b{last}.g", "fc"]}]},
      {"name": "y", "op": "add", "inputs": ["a0.b1.g", "a{last}.b0.g", "a{last}.h"]})",
                      sink)
                    .graph;
  check_typed(graph);
  auto all = shapes(graph);
  for (const char* name : {"a0.b0.fc.weight", "a1.b1.fc.weight", "a1.h"}) CHECK(all.count(name) == 1);
  for (const Node& node : graph.nodes) {
    if (node.layer == "a1.h") CHECK(graph.value(node.operands[1]).name == "fc");
    if (node.layer == "a1.b0.fc" && node.op == OpKind::kContract) CHECK(graph.value(node.operands[0]).name == "a0.h");
  }
}

TEST_CASE("model: overrides reach sizes, repetitions and the normalised file") {
  DiagnosticSink sink;
  std::string layers = R"({"repeat": "layers", "name": "b{i}", "carry": "h", "from": "x", "layers": [
      {"name": "h", "op": "linear", "input": "h", "out": "hidden"}]}, {"name": "y", "op": "relu", "input": "b{last}.h"})";
  ModelOverrides overrides{{{"batch", 5}, {"hidden", 3}, {"layers", 1}}};
  Model model = parse(layers, sink, overrides);
  CHECK(shapes(model.graph)["y"] == Shape{5, 3});
  CHECK(shapes(model.graph).count("b1.h") == 0);
  Model again = parse_model(model.json, "m.json", {}, sink);
  CHECK(again.graph == model.graph);
  CHECK(again.json == model.json);
  CHECK(again.optimizer == model.optimizer);
}

TEST_CASE("model: what the loss does not need is left out, with a warning") {
  DiagnosticSink sink;
  Graph graph = parse(R"({"name": "y", "op": "linear", "input": "x", "out": "hidden"},
      {"repeat": 2, "name": "b{i}", "layers": [{"name": "side", "op": "linear", "input": "y", "out": "layers"}]})",
                      sink)
                    .graph;
  check_typed(graph);
  CHECK(shapes(graph).count("b0.side.weight") == 0);
  REQUIRE(sink.diagnostics().size() == 1);
  CHECK(sink.diagnostics()[0].severity == Severity::kWarning);
  CHECK(sink.diagnostics()[0].message == "layer \"b0.side\" is not used by the loss; it is left out");
  CHECK(sink.diagnostics()[0].loc.pointer == "/layers/1/layers/0");
}

TEST_CASE("model: unused sizes and inputs are warnings") {
  DiagnosticSink sink;
  parse(R"({"name": "x2", "op": "slice", "input": "t", "dim": 0, "start": 0, "length": "batch"},
           {"name": "y", "op": "linear", "input": "x2", "out": "hidden"})",
        sink);
  REQUIRE(sink.diagnostics().size() == 2);
  CHECK(sink.diagnostics()[0].message == "size \"layers\" is not used");
  CHECK(sink.diagnostics()[1].message == "input \"x\" is not used by the loss; it is left out");
}

TEST_CASE("model: the graph ends in an output of the loss") {
  DiagnosticSink sink;
  Graph graph = parse(R"({"name": "y", "op": "linear", "input": "x", "out": "hidden"})", sink).graph;
  const Node& last = graph.nodes.back();
  CHECK(last.op == OpKind::kOutput);
  CHECK(last.attributes.get_string("name") == "loss");
  CHECK(last.operands == std::vector<ValueId>{graph.loss});
  CHECK(graph.value(graph.loss).name == "loss");
  CHECK(graph.value(graph.loss).type.shape.empty());
}

TEST_CASE("model: the optimizer") {
  auto read = [](const std::string& optimizer) {
    DiagnosticSink sink;
    std::string text = kHead + R"({"name": "y", "op": "linear", "input": "x", "out": "hidden"},)" + kTail;
    text.insert(text.size() - 1, optimizer);
    return parse_model(text, "m.json", {}, sink).optimizer;
  };
  CHECK(read("") == OptimizerSettings{});
  OptimizerSettings adamw =
      read(R"(, "optimizer": {"type": "adamw", "lr": 0.5, "betas": [0.1, 0.2], "eps": 1e-3, "clip_norm": 2})");
  CHECK(adamw.lr == 0.5);
  CHECK(adamw.beta2 == 0.2);
  CHECK(adamw.eps == 1e-3);
  CHECK(adamw.clip_norm == 2.0);
  CHECK(adamw.pointer == "/optimizer");
  OptimizerSettings sgd = read(R"(, "optimizer": {"type": "sgd", "lr": 0.5, "momentum": 0.9})");
  CHECK(sgd.type == "sgd");
  CHECK(sgd.momentum == 0.9);
  CHECK(sgd.weight_decay == 0.0);
}

TEST_CASE("model: every model that ships reads without a word and has its size") {
  const std::map<std::string, int64_t> parameters = {{"small_gpt", 427'264},     {"small_gpt_tutorial_split", 427'264},
                                                     {"tiny_gpt", 462'336},      {"mlp", 24'864},
                                                     {"llama_tiny", 428'672},    {"mid_gpt", 27'303'936},
                                                     {"gpt2_124m", 124'439'808}, {"llama3_405b", 405'853'388'800}};
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TPC_SOURCE_DIR) + "/models")) {
    if (entry.path().extension() != ".json") continue;
    ++count;
    std::string name = entry.path().stem().string();
    CAPTURE(name);
    DiagnosticSink sink;
    Model model = load_model(entry.path().string(), {}, sink);
    CHECK(sink.diagnostics().empty());
    CHECK(model.graph.name == name);
    check_typed(model.graph);
    REQUIRE(parameters.count(name) == 1);
    CHECK(num_parameters(model.graph) == parameters.at(name));
  }
  CHECK(count == parameters.size());
}

TEST_CASE("model: a file that cannot be read names itself") {
  DiagnosticSink sink;
  for (std::string path : {std::string("/nowhere/model.json"), std::string(TPC_SOURCE_DIR)}) {
    try {
      load_model(path, {}, sink);
      FAIL("accepted");
    } catch (const UserError& error) {
      CHECK(error.diagnostics()[0].loc.file == path);
    }
  }
}

}  // namespace
}  // namespace tpc

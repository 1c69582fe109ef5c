// What each layer expands to: ops, shapes and attributes.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "compiler/frontend/layer_table.h"
#include "compiler/frontend/model.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

// A model around `layers`, which start from x [batch=2, seq=4, hidden=8] or ids [2, 4]; `y` must be their last one.
Graph expand(const std::string& layers) {
  std::string text =
      R"({"format": "tpc-model", "version": 1, "name": "m",
    "dims": {"batch": 2, "seq": 4, "vocab": 16, "hidden": 8, "heads": 4, "kv_heads": 2, "head_dim": 2, "ffn": 12},
    "inputs": {"ids": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
    "layers": [{"name": "x", "op": "embedding", "input": "ids", "rows": "vocab", "out": "hidden"},)" +
      layers + R"(, {"name": "loss", "op": "mean_squared_error", "input": "y", "targets": "y"}], "loss": "loss"})";
  DiagnosticSink sink;
  return parse_model(text, "m.json", {}, sink).graph;
}

const Node& maker(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes) {
    for (ValueId result : node.results) {
      if (graph.value(result).name == name) return node;
    }
  }
  FAIL("no value ", name);
  return graph.nodes[0];
}

Shape shape(const Graph& graph, const std::string& name) {
  for (ValueId result : maker(graph, name).results) {
    if (graph.value(result).name == name) return graph.value(result).type.shape;
  }
  return {};
}

TEST_CASE("layers: linear keeps the natural dimensions of its weight") {
  Graph graph = expand(R"({"name": "q", "op": "linear", "input": "x", "out": [3, "heads", "head_dim"], "bias": true},
                          {"name": "y", "op": "linear", "input": "q", "contract": ["heads", "head_dim"], "out": "hidden"})");
  CHECK(shape(graph, "q.weight") == Shape{3, 4, 2, 8});
  CHECK(shape(graph, "q.bias") == Shape{3, 4, 2});
  CHECK(shape(graph, "q.product") == Shape{2, 4, 3, 4, 2});
  CHECK(maker(graph, "q").op == OpKind::kAdd);
  CHECK(shape(graph, "y.weight") == Shape{8, 4, 2});
  CHECK(shape(graph, "y") == Shape{2, 4, 3, 8});
  CHECK(maker(graph, "y").op == OpKind::kContract);
  CHECK(maker(graph, "y").layer == "y");
  CHECK(maker(graph, "y").origin == "/layers/2");
  CHECK(maker(graph, "y.weight").attributes.get_double("std") == 0.02);
}

TEST_CASE("layers: initializers and frozen weights") {
  Graph graph =
      expand(R"json({"name": "y", "op": "linear", "input": "x", "out": "hidden", "bias": true, "trainable": false,
                           "init": {"uniform": "1/sqrt(heads)"}, "bias_init": {"constant": -2}})json");
  const Attributes& weight = maker(graph, "y.weight").attributes;
  CHECK(weight.get_string("init") == "uniform");
  CHECK(weight.get_double("bound") == 0.5);
  CHECK_FALSE(weight.get_bool("trainable"));
  CHECK(maker(graph, "y.bias").attributes.get_double("value") == -2.0);
}

TEST_CASE("layers: embeddings") {
  Graph graph = expand(R"({"name": "p", "op": "position_embedding", "input": "x", "rows": 10, "init": "zeros"},
                          {"name": "y", "op": "position_embedding", "input": "p", "rows": "seq"})");
  CHECK(shape(graph, "x.weight") == Shape{16, 8});
  CHECK(shape(graph, "p.weight") == Shape{10, 8});
  CHECK(shape(graph, "p.rows") == Shape{4, 8});
  CHECK(shape(graph, "y") == Shape{2, 4, 8});
  CHECK(graph.value(maker(graph, "y").operands[1]).name == "y.weight");
}

TEST_CASE("layers: a tied weight is the same value") {
  Graph graph = expand(R"({"name": "y", "op": "linear", "input": "x", "out": "vocab", "weight": "x.weight"})");
  CHECK(maker(graph, "y").operands[1] == maker(graph, "x.weight").results[0]);
}

TEST_CASE("layers: norms") {
  Graph graph = expand(
      R"({"name": "n", "op": "layer_norm", "input": "x", "eps": 0.5}, {"name": "y", "op": "rms_norm", "input": "n"})");
  CHECK(shape(graph, "n.weight") == Shape{8});
  CHECK(shape(graph, "n.mean") == Shape{2, 4});
  CHECK(maker(graph, "n").attributes.get_double("eps") == 0.5);
  CHECK(maker(graph, "y").attributes.get_double("eps") == 1e-5);
  CHECK(maker(graph, "y.weight").attributes.get_string("init") == "ones");
}

TEST_CASE("layers: attention, fused and with grouped heads") {
  Graph fused = expand(R"({"name": "qkv", "op": "linear", "input": "x", "out": [3, "heads", "head_dim"]},
                          {"name": "y", "op": "attention", "input": "qkv", "causal": true, "scale": 2})");
  CHECK(shape(fused, "y.k") == Shape{2, 4, 4, 2});
  CHECK(shape(fused, "y") == Shape{2, 4, 4, 2});
  CHECK(shape(fused, "y.k") == shape(fused, "y.q"));
  CHECK(maker(fused, "y").attributes.get_double("scale") == 2.0);
  CHECK(maker(fused, "y").attributes.get_bool("causal"));

  Graph grouped = expand(R"({"name": "q", "op": "linear", "input": "x", "out": ["heads", "head_dim"]},
                            {"name": "k", "op": "linear", "input": "x", "out": ["kv_heads", "head_dim"]},
                            {"name": "r", "op": "rope", "input": "q", "rotary_fraction": 1, "interleaved": true},
                            {"name": "y", "op": "attention", "inputs": ["r", "k", "k"]})");
  CHECK(shape(grouped, "y") == Shape{2, 4, 4, 2});
  CHECK(maker(grouped, "y").attributes.get_double("scale") == doctest::Approx(0.7071067811865475));
  CHECK(maker(grouped, "r").attributes.get_int("rotary_dim") == 2);
  CHECK(maker(grouped, "r").attributes.get_bool("interleaved"));
}

TEST_CASE("layers: element by element") {
  Graph graph = expand(
      R"json({"name": "a", "op": "gelu", "input": "x", "approximate": "tanh"}, {"name": "b", "op": "silu", "input": "a"},
    {"name": "c", "op": "relu", "input": "b"}, {"name": "d", "op": "gelu", "input": "c"}, {"name": "e", "op": "gelu_tanh", "input": "d"},
    {"name": "f", "op": "tanh", "input": "e"}, {"name": "g", "op": "sigmoid", "input": "f"}, {"name": "s", "op": "softmax", "input": "g"},
    {"name": "h", "op": "scale", "input": "s", "factor": "1/sqrt(heads)"}, {"name": "i", "op": "dropout", "input": "h", "rate": 0.1},
    {"name": "j", "op": "add", "inputs": ["i", "h", "x"]}, {"name": "y", "op": "multiply", "inputs": ["j", "x"]})json");
  CHECK(maker(graph, "a").attributes.get_string("function") == "gelu_tanh");
  CHECK(maker(graph, "d").attributes.get_string("function") == "gelu");
  CHECK(maker(graph, "e").attributes.get_string("function") == "gelu_tanh");
  CHECK(maker(graph, "h").attributes.get_double("factor") == 0.5);
  CHECK(maker(graph, "i").attributes.get_string("stream") == "i");
  CHECK(maker(graph, "j").operands.size() == 3);
  CHECK(shape(graph, "y") == Shape{2, 4, 8});
}

TEST_CASE("layers: gated product, from two tensors or one") {
  Graph separate = expand(
      R"({"name": "u", "op": "linear", "input": "x", "out": "ffn"}, {"name": "y", "op": "gated", "inputs": ["u", "u"]})");
  CHECK(shape(separate, "y") == Shape{2, 4, 12});
  CHECK(maker(separate, "y.activation").attributes.get_string("function") == "silu");
  Graph fused = expand(R"({"name": "u", "op": "linear", "input": "x", "out": [2, "ffn"]},
                          {"name": "y", "op": "gated", "input": "u", "activation": "gelu"})");
  CHECK(maker(fused, "y.gate").attributes.get_int("start") == 0);
  CHECK(maker(fused, "y.up").attributes.get_int("start") == 1);
  CHECK(shape(fused, "y") == Shape{2, 4, 12});
}

TEST_CASE("layers: rearranging") {
  Graph graph = expand(R"({"name": "r", "op": "reshape", "input": "x", "shape": ["batch", "seq", "heads", "head_dim"]},
    {"name": "t", "op": "transpose", "input": "r", "permutation": ["batch", "heads", 1, 3]},
    {"name": "s", "op": "slice", "input": "t", "dim": "heads", "start": 1, "length": 2},
    {"name": "d", "op": "slice", "input": "t", "dim": 3, "start": 1, "length": 1, "drop": true},
    {"name": "c", "op": "concat", "inputs": ["s", "t"], "dim": 1},
    {"name": "k", "op": "concat", "inputs": ["d", "d"], "dim": 3, "stack": true},
    {"name": "y", "op": "concat", "inputs": ["c", "k"], "dim": 1})");
  CHECK(shape(graph, "t") == Shape{2, 4, 4, 2});
  CHECK(shape(graph, "s") == Shape{2, 2, 4, 2});
  CHECK(shape(graph, "d") == Shape{2, 4, 4});
  CHECK(shape(graph, "c") == Shape{2, 6, 4, 2});
  CHECK(shape(graph, "k") == Shape{2, 4, 4, 2});
  CHECK(shape(graph, "y") == Shape{2, 10, 4, 2});
}

TEST_CASE("layers: cross entropy never makes more than a few numbers a token") {
  Graph graph =
      expand(R"({"name": "y", "op": "cross_entropy", "input": "x", "targets": "targets", "ignore_index": -1})");
  CHECK(shape(graph, "y.max") == Shape{2, 4});
  CHECK(shape(graph, "y.stats") == Shape{2, 2, 4});
  CHECK(shape(graph, "y.sum") == Shape{});
  CHECK(maker(graph, "y").op == OpKind::kDivide);
  CHECK(maker(graph, "y.sum").attributes.get_int("ignore_index") == -1);
}

TEST_CASE("layers: annotations are resolved on the layer's main node") {
  Graph graph = expand(R"json(
    {"name": "q", "op": "linear", "input": "x", "out": [3, "heads", "head_dim"], "bias": true, "shard": {"weight": "S(heads)", "output": "S(3)", "input": "R"}},
    {"name": "a", "op": "attention", "input": "q", "shard": "replicate"},
    {"name": "o", "op": "linear", "input": "a", "contract": ["heads", "head_dim"], "out": "hidden", "shard": "row"},
    {"name": "y", "op": "layer_norm", "input": "o", "shard": {"input": "S(seq)", "weight": "R"}})json");
  const Annotation& q = maker(graph, "q.product").annotation;
  CHECK(q.layer == "");
  CHECK(q.uses == std::vector<std::pair<std::string, Placement>>{{"input", Placement::replicate()},
                                                                 {"weight", Placement::shard(1)},
                                                                 {"output", Placement::shard(3)}});
  CHECK(q.pointer == "/layers/1/shard");
  CHECK(maker(graph, "q").annotation.empty());
  CHECK(maker(graph, "a").op == OpKind::kAttention);
  CHECK(maker(graph, "a").annotation.layer == "replicate");
  CHECK(maker(graph, "o").annotation.layer == "row");
  CHECK(maker(graph, "y").annotation.uses[0].second == Placement::shard(1));
}

TEST_CASE("layers: the reference in docs/model-format.md is that of the table") {
  std::string path = std::string(TPC_SOURCE_DIR) + "/docs/model-format.md";
  std::ifstream file(path);
  std::ostringstream stream;
  stream << file.rdbuf();
  std::string page = stream.str();
  const std::string begin = "<!-- layers: written by the tests from the table -->\n\n";
  const std::string end = "<!-- end of layers -->";
  size_t first = page.find(begin);
  size_t last = page.find(end);
  REQUIRE(first != std::string::npos);
  REQUIRE(last != std::string::npos);
  first += begin.size();
  std::string found = page.substr(first, last - first);
  if (std::getenv("TPC_UPDATE_GOLDEN") != nullptr && found != layers_markdown()) {
    std::ofstream(path) << page.replace(first, last - first, layers_markdown());
    found = layers_markdown();
  }
  CHECK(found == layers_markdown());
}

}  // namespace
}  // namespace tpc

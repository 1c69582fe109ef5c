#include "compiler/ir/printer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "compiler/ir/parser.h"

namespace tpc {
namespace {

const std::string kPlaced = R"(graph "small_gpt" from "models/small_gpt.json"
mesh [dp=2, tp=4]
loss %6
%0 "block0.fc2.weight" : f32[768, 3072] @ [R, S(1)] = parameter {init="normal", std=0.02, trainable=true} forward "block0.fc2" pin "row" {"weight" S(1), "output" R} at "/layers/1/shard" # /layers/1
%1 "x" : f32[8, 128, 768] @ [S(0), R], %2 "mean" : f32[8, 128] @ [S(0), R] = input forward "x" # /inputs/x
%3 "block0.fc2" : f32[8, 128, 768] @ [S(0), P(sum)] = contract %1, %0 {einsum="bsf,hf->bsh"} uses [S(0), S(2)] [R, S(1)] forward "block0.fc2" # /layers/1
%4 "block0.fc2.reduced" : f32[8, 128, 768] @ [S(0), R] = all_reduce %3 {axes=[1], op="sum"} uses [S(0), P(sum)] forward "block0.fc2" why "row-parallel \"block0.fc2\" adds up over tp" # /layers/1
%6 "loss" : f32[] @ [P(sum), R] = sum_squares %4 uses [S(0), R] forward "loss" # /loss
%7 "grad.block0.fc2" : f32[8, 128, 768] @ [S(0), R] = multiply %4, %6 uses [S(0), R] [R, R] backward "block0.fc2" of %3 # /layers/1
output %6 {name="loss"} uses [R, R] forward
%5 "replaced" : i32[2] @ [S(0:2), P(max)] local [2]
)";

TEST_CASE("printer: every part of a graph has its place in the text") {
  Graph graph = parse_graph(kPlaced, "placed.ir");
  CHECK(print(graph) == kPlaced);
  CHECK(graph.name == "small_gpt");
  CHECK(graph.source_file == "models/small_gpt.json");
  CHECK(graph.mesh == parse_mesh("dp=2,tp=4"));
  CHECK(graph.loss == ValueId{6});
  REQUIRE(graph.nodes.size() == 7);
  REQUIRE(graph.values.size() == 8);

  const Node& weight = graph.nodes[0];
  CHECK(weight.annotation.layer == "row");
  CHECK(weight.annotation.uses[1] == std::pair<std::string, Placement>("output", Placement::replicate()));
  CHECK(weight.annotation.pointer == "/layers/1/shard");
  CHECK(graph.nodes[1].results == std::vector<ValueId>{ValueId{1}, ValueId{2}});

  const Node& contraction = graph.nodes[2];
  CHECK(contraction.op == OpKind::kContract);
  CHECK(contraction.operands == std::vector<ValueId>{ValueId{1}, ValueId{0}});
  CHECK(to_string(contraction.operand_shardings.at(0)) == "[S(0), S(2)]");
  CHECK(contraction.attributes.get_string("einsum") == "bsf,hf->bsh");
  CHECK(contraction.layer == "block0.fc2");
  CHECK(contraction.origin == "/layers/1");
  CHECK(to_string(graph.value(ValueId{3}).sharding) == "[S(0), P(sum)]");

  CHECK(graph.nodes[3].why == "row-parallel \"block0.fc2\" adds up over tp");
  CHECK(graph.nodes[5].phase == Phase::kBackward);
  CHECK(graph.nodes[5].differentiates == ValueId{3});
  CHECK(graph.nodes[6].results.empty());
  CHECK(graph.value(ValueId{5}).name == "replaced");
  CHECK(graph.value(ValueId{5}).local_shape == Shape{2});
  CHECK_FALSE(graph.value(ValueId{6}).local_shape.has_value());
}

TEST_CASE("printer: a graph before placement is plain") {
  std::string text =
      "graph \"g\"\n"
      "%0 \"x\" : f32[4] = input forward\n"
      "%1 \"y\" : f32[4] = unary %0 {function=\"gelu\"} forward\n";
  Graph graph = parse_graph(text, "plain.ir");
  CHECK(print(graph) == text);
  CHECK(print(graph, graph.nodes[1]) == "%1 \"y\" : f32[4] = unary %0 {function=\"gelu\"} forward");
  CHECK(graph.nodes[1].operand_shardings.empty());
  CHECK_FALSE(graph.loss.is_valid());
}

TEST_CASE("printer: the precision stands before the mesh, where it is not f32") {
  for (const char* precision : {"bf16", "bf16/bf16"}) {
    Graph graph = parse_graph(kPlaced, "placed.ir");
    graph.precision = *parse_precision(precision);
    std::string text = print(graph);
    CHECK(text.find(std::string("\nprecision \"") + precision + "\"\nmesh [") != std::string::npos);
    CHECK(parse_graph(text, "placed.ir") == graph);
  }
  CHECK_THROWS_AS(parse_graph("graph \"g\"\nprecision \"bf17\"\n", "g.ir"), UserError);
}

TEST_CASE("printer: an empty graph") {
  CHECK(print(Graph()) == "graph \"\"\n");
  CHECK(parse_graph("graph \"\"", "empty.ir") == Graph());
}

TEST_CASE("printer: a graph that is broken is printed all the same") {
  Graph graph;
  Node node;
  node.operands = {ValueId{}, ValueId{7}};
  node.results = {ValueId{3}};
  graph.nodes.push_back(node);
  CHECK(print(graph) == "graph \"\"\n%3 = add %-1, %7 forward\n");
}

TEST_CASE("parser: blank lines and comments are skipped") {
  CHECK(parse_graph("# What must be true.\n\ngraph \"g\"\n\n  # x\n%0 \"x\" : f32[4] = input forward # /inputs/x\n\n",
                    "g.ir") == parse_graph("graph \"g\"\n%0 \"x\" : f32[4] = input forward # /inputs/x", "g.ir"));
}

// A graph of random content: the printer must not depend on what passes happen to make.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  Graph make() {
    Graph graph;
    graph.name = text();
    graph.source_file = text();
    size_t num_axes = below(4);
    std::vector<MeshAxis> axes;
    for (size_t i = 0; i < num_axes; ++i)
      axes.push_back({"a." + std::to_string(i), 1 + static_cast<int64_t>(below(5))});
    graph.mesh = DeviceMesh(std::move(axes));
    num_axes_ = num_axes;
    is_placed_ = below(2) == 0;
    size_t num_nodes = below(8);
    for (size_t i = 0; i < num_nodes; ++i) graph.nodes.push_back(node(graph));
    for (size_t i = below(3); i > 0; --i) value(graph);
    graph.loss = some_value(graph);
    std::shuffle(graph.nodes.begin(), graph.nodes.end(), random_);
    return graph;
  }

 private:
  size_t below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }

  std::string text() {
    static const std::vector<std::string> kTexts{"",   "block0.fc2", "a b", "/layers/1", "\"",   "\\",        "# x",
                                                 "%1", " ",          "\n",  "\t[}",      "\x7f", "\xc3\xa9 ", "/x\ny"};
    return kTexts[below(kTexts.size())];
  }

  Placement placement() {
    switch (below(4)) {
      case 0:
        return Placement::shard(static_cast<int64_t>(below(5)), 1 + static_cast<int64_t>(below(3)));
      case 1:
        return Placement::partial(below(2) == 0 ? ReduceOp::kSum : ReduceOp::kMax);
      default:
        return Placement::replicate();
    }
  }

  TensorSharding sharding() {
    TensorSharding result;
    for (size_t i = 0; i < num_axes_; ++i) result.placements.push_back(placement());
    return result;
  }

  Attribute attribute() {
    switch (below(5)) {
      case 0:
        return below(2) == 0;
      case 1:
        return static_cast<int64_t>(below(1000)) - 500;
      case 2:
        return std::uniform_real_distribution<double>(-1e9, 1e-3)(random_);
      case 3:
        return text();
      default:
        return std::vector<int64_t>(below(3), static_cast<int64_t>(below(9)));
    }
  }

  ValueId value(Graph& graph) {
    Shape shape(below(4), static_cast<int64_t>(below(9)));
    ValueId id = add_value(graph, text(), {below(2) == 0 ? DType::kF32 : DType::kI32, shape});
    if (is_placed_) graph.value(id).sharding = sharding();
    if (below(2) == 0) graph.value(id).dim_names.assign(1 + below(3), text());
    if (below(2) == 0) graph.value(id).local_shape = Shape(below(4), static_cast<int64_t>(below(9)));
    return id;
  }

  ValueId some_value(const Graph& graph) {
    bool is_none = graph.values.empty() || below(3) == 0;
    return is_none ? ValueId{} : ValueId{static_cast<int32_t>(below(graph.values.size()))};
  }

  Node node(Graph& graph) {
    Node node;
    node.op = parse_op_kind(op_names()[below(op_names().size())]).value();
    node.layer = text();
    for (size_t i = below(4); i > 0; --i) {
      ValueId operand = some_value(graph);
      if (!operand.is_valid()) continue;
      node.operands.push_back(operand);
      if (is_placed_) node.operand_shardings.push_back(sharding());
    }
    for (size_t i = below(4); i > 0; --i) node.results.push_back(value(graph));
    for (const char* name : {"eps", "rotary_dim", "x"}) {
      if (below(2) == 0) node.attributes.set(name, attribute());
    }
    node.phase = static_cast<Phase>(below(3));
    node.origin = text();
    node.differentiates = some_value(graph);
    if (below(3) == 0) node.annotation.layer = text();
    for (size_t i = below(3); i > 0; --i) node.annotation.uses.emplace_back(text(), placement());
    if (below(3) == 0) node.annotation.pointer = text();
    node.why = text();
    return node;
  }

  std::mt19937_64 random_;
  size_t num_axes_ = 0;
  bool is_placed_ = false;
};

TEST_CASE("printer: random graphs parse back") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Graph graph = RandomGraph(seed).make();
    std::string text = print(graph);
    INFO("seed " << seed << ":\n" << text);
    Graph parsed = parse_graph(text, "random.ir");
    CHECK(parsed == graph);
    CHECK(print(parsed) == text);
  }
}

struct Mistake {
  std::string line;
  std::string message;
  /// What stands at the byte reported.
  std::string at;
};

TEST_CASE("parser: a mistake is reported with its byte") {
  for (const Mistake& mistake : {
           Mistake{"%1 \"y\" : f32[4] = unry %0 forward", "unknown op \"unry\", did you mean \"unary\"?", "unry"},
           Mistake{"convolve %0 forward", "unknown op \"convolve\"", "convolve"},
           Mistake{"%0 \"y\" : f32[4] = input forward", "value %0 is made twice", "%0 \"y\""},
           Mistake{"output %3 forward", "value %3 is used but never made", "%3"},
           Mistake{"%2 \"y\" : f32[4]", "value %1 is missing before %2", "%2"},
           Mistake{"%1 \"y\" : f16[4] = input forward", "wanted a type such as f32[2, 3], found \"f16\"", "f16"},
           Mistake{"%1 \"y\" : f32[4,] = input forward", "wanted a shape such as [2, 3], found \"[\"", "[4,]"},
           Mistake{"%1 \"y\" : f32[4] @ [S] = input forward", "wanted a sharding such as [S(0), R], found \"[\"",
                   "[S]"},
           Mistake{"%1 y : f32[4] = input forward", "wanted quoted text, found \"y\"", "y :"},
           Mistake{"%1 \"y : f32[4] = input forward", "wanted quoted text, found \"\"\"", "\"y"},
           Mistake{"%x \"y\" : f32[4]", "wanted the number of a value, found \"x\"", "x \"y\""},
           Mistake{"%1 \"y\" : f32[4], %2 \"z\" : f32[4]", "wanted \"=\", found the end of the line", "\n"},
           Mistake{"output %0", "wanted forward, backward or optimizer, found the end of the line", "\n"},
           Mistake{"output %0 sideways", "wanted forward, backward or optimizer, found \"sideways\"", "sideways"},
           Mistake{"output %0 {name=} forward", "wanted a value: true, 3, 0.5, \"text\" or [1, 2], found \"}\"", "}"},
           Mistake{"output %0 {a=1, a=2} forward", "attribute \"a\" is given twice", "a=2"},
           Mistake{"output %0 {a=1 forward", "wanted \"}\", found \"forward\"", "forward"},
           Mistake{"add %0, %0 uses [R] R forward", "wanted forward, backward or optimizer, found \"R\"", "R forward"},
           Mistake{"add %0, %0 uses [R] [Q] forward", "wanted a sharding such as [S(0), R], found \"[\"", "[Q]"},
           Mistake{"output %0 forward pin \"row\" {\"weight\" X} at \"\"",
                   "wanted a placement such as S(0), found \"X\"", "X"},
           Mistake{"output %0 forward \"x\" trailing", "wanted the end of the line, found \"trailing\"", "trailing"},
       }) {
    std::string text = "graph \"g\"\n%0 \"x\" : f32[4] = input forward\n" + mistake.line + "\n";
    CAPTURE(mistake.line);
    try {
      parse_graph(text, "bad.ir");
      FAIL("accepted");
    } catch (const UserError& error) {
      REQUIRE(error.diagnostics().size() == 1);
      const Diagnostic& diagnostic = error.diagnostics()[0];
      CHECK(diagnostic.message == mistake.message);
      CHECK(diagnostic.loc == SourceLoc{"bad.ir", ""});
      REQUIRE(diagnostic.byte >= 0);
      CHECK(text.substr(static_cast<size_t>(diagnostic.byte), mistake.at.size()) == mistake.at);
    }
  }
}

TEST_CASE("parser: a header is wanted") {
  for (std::string text : {"", "%0 \"x\" : f32[4]", "graph", "graph g", "graph \"g\" from", "graph \"g\"\nmesh [dp=2",
                           "graph \"g\"\nmesh [dp=2, dp=2]", "graph \"g\"\nloss x", "graph \"g\"\nloss %0"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_graph(text, "bad.ir"), UserError);
  }
}

// Truncated and damaged text is refused or read, and never breaks anything.
TEST_CASE("parser: damaged text") {
  for (size_t length = 0; length < kPlaced.size(); ++length) {
    try {
      parse_graph(kPlaced.substr(0, length), "cut.ir");
    } catch (const UserError& error) {
      CHECK(error.diagnostics()[0].byte <= static_cast<long long>(length));
    }
  }
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text = kPlaced;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = kPlaced[random() % kPlaced.size()];
    try {
      Graph graph = parse_graph(text, "damaged.ir");
      CHECK(parse_graph(print(graph), "again.ir") == graph);
    } catch (const UserError& error) {
      CHECK(error.diagnostics().size() == 1);
    }
  }
}

}  // namespace
}  // namespace tpc

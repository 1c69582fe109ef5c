#include "compiler/ir/graph.h"

#include <doctest/doctest.h>

namespace tpc {
namespace {

// y = x w, z = y + y, and a value that nothing makes.
Graph small_graph() {
  Graph graph;
  ValueId x = add_value(graph, "x", {DType::kF32, {2, 3}});
  ValueId w = add_value(graph, "w", {DType::kF32, {3, 4}});
  ValueId y = add_value(graph, "y", {DType::kF32, {2, 4}});
  ValueId z = add_value(graph, "z", {DType::kF32, {2, 4}});
  add_value(graph, "unused", {DType::kI32, {}});
  auto add_node = [&](OpKind op, std::vector<ValueId> operands, std::vector<ValueId> results) {
    Node node;
    node.op = op;
    node.operands = std::move(operands);
    node.results = std::move(results);
    graph.nodes.push_back(std::move(node));
  };
  add_node(OpKind::kInput, {}, {x});
  add_node(OpKind::kParameter, {}, {w});
  add_node(OpKind::kContract, {x, w}, {y});
  add_node(OpKind::kAdd, {y, y}, {z});
  return graph;
}

TEST_CASE("graph: producers and uses") {
  Graph graph = small_graph();
  CHECK(producers(graph) == std::vector<int>{0, 1, 2, 3, -1});
  std::vector<std::vector<Use>> found = uses(graph);
  REQUIRE(found.size() == 5);
  REQUIRE(found[1].size() == 1);
  CHECK(found[1][0].node == 2);
  CHECK(found[1][0].operand == 1);
  REQUIRE(found[2].size() == 2);
  CHECK(found[2][0].node == 3);
  CHECK(found[2][1].operand == 1);
  CHECK(found[3].empty());
}

TEST_CASE("graph: types and shapes of a node") {
  Graph graph = small_graph();
  const Node& contraction = graph.nodes[2];
  CHECK(operand_shapes(graph, contraction) == std::vector<Shape>{{2, 3}, {3, 4}});
  CHECK(result_shapes(graph, contraction) == std::vector<Shape>{{2, 4}});
  CHECK(operand_types(graph, contraction)[1] == TensorType{DType::kF32, {3, 4}});
  CHECK(result_types(graph, contraction).size() == 1);
  CHECK(operand_types(graph, graph.nodes[0]).empty());
}

TEST_CASE("graph: is a value") {
  Graph graph = small_graph();
  Graph copy = graph;
  CHECK(copy == graph);
  copy.value(ValueId{2}).name = "other";
  CHECK(copy != graph);
  CHECK(graph.value(ValueId{2}).name == "y");
  graph.source_file = "m.json";
  graph.nodes[3].origin = "/layers/1";
  CHECK(graph.loc(graph.nodes[3]) == SourceLoc{"m.json", "/layers/1"});
}

TEST_CASE("graph: names of phases and stages") {
  CHECK(to_string(Phase::kForward) == "forward");
  CHECK(to_string(Phase::kOptimizer) == "optimizer");
  CHECK(to_string(Stage::kParsed) == "parsed");
  CHECK(to_string(Stage::kReconciled) == "reconciled");
  CHECK(to_string(Stage::kScheduled) == "scheduled");
}

}  // namespace
}  // namespace tpc

// The reference executor itself, on a two-layer perceptron that is sharded by hand: column-parallel, then row-parallel.
#include "tests/support/reference_executor.h"

#include <doctest/doctest.h>

#include "tests/support/graph_builder.h"

namespace tpc::testing {
namespace {

constexpr Placement kReplicate{};
const Attributes kSgdAttributes{{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.0}, {"has_coefficient", false}};

/// loss = sum of (relu(x w1) w2)^2; the second weight is moved along x itself, with momentum: enough to see state.
Graph perceptron() {
  GraphBuilder builder;
  ValueId x = builder.input("x", {3, 4});
  ValueId w1 = builder.parameter("w1", {4, 5});
  ValueId w2 = builder.parameter("w2", {5, 4});
  ValueId momentum = builder.state("momentum", {5, 4});
  ValueId hidden = builder.add(OpKind::kContract, {x, w1}, {{"einsum", std::string("bi,ij->bj")}}, "hidden");
  ValueId active = builder.add(OpKind::kUnary, {hidden}, {{"function", std::string("relu")}}, "active");
  ValueId y = builder.add(OpKind::kContract, {active, w2}, {{"einsum", std::string("bj,jk->bk")}}, "y");
  ValueId loss = builder.add(OpKind::kSumSquares, {y}, {}, "loss");
  ValueId change = builder.add(OpKind::kContract, {active, x}, {{"einsum", std::string("bj,bk->jk")}}, "change");
  std::vector<ValueId> updated = builder.add_node(OpKind::kSgd, {w2, change, momentum}, kSgdAttributes, "sgd");
  builder.add_node(OpKind::kUpdate, {w2, updated[0]});
  builder.add_node(OpKind::kUpdate, {momentum, updated[1]});
  builder.output("loss", loss);
  return builder.graph();
}

void place(Graph& graph, std::string_view name, Placement placement) {
  for (Value& value : graph.values) {
    if (value.name == name) value.sharding = {{placement}};
  }
}

/// The same on `ranks` ranks; "y" is a partial sum, and its all_reduce is left out when `reduce` is false.
Graph sharded_perceptron(int64_t ranks, bool reduce) {
  Graph graph = perceptron();
  graph.mesh = DeviceMesh({{"tp", ranks}});
  for (Value& value : graph.values) value.sharding = TensorSharding::replicated(graph.mesh);
  for (const char* name : {"hidden", "active", "w1"}) place(graph, name, Placement::shard(1));
  for (const char* name : {"w2", "momentum", "change", "sgd", "sgd.1"}) place(graph, name, Placement::shard(0));
  if (reduce) {
    ValueId y = graph.nodes[6].results[0];
    Node node;
    node.op = OpKind::kAllReduce;
    node.layer = "y.reduced";
    node.operands = {y};
    node.operand_shardings = {{{Placement::partial()}}};
    node.attributes = {{"axes", std::vector<int64_t>{0}}, {"op", std::string("sum")}};
    graph.value(y).sharding = node.operand_shardings[0];
    ValueId reduced = add_value(graph, "y.reduced", graph.value(y).type);
    graph.value(reduced).sharding = {{kReplicate}};
    node.results = {reduced};
    graph.nodes[7].operands = {reduced};
    graph.nodes.insert(graph.nodes.begin() + 7, node);
  }
  return graph;
}

ReferenceExecutor run_two_steps(Graph graph) {
  ReferenceExecutor executor(std::move(graph));
  executor.set_parameters(/*seed=*/1);
  executor.set_leaf("x", random_normal_tensor({DType::kF32, {3, 4}}, 1, "x"));
  executor.run_step({.seed = 1, .step = 0});
  executor.run_step({.seed = 1, .step = 1});
  return executor;
}

}  // namespace

TEST_CASE("a sharded graph computes what one rank does") {
  ReferenceExecutor one = run_two_steps(perceptron());
  for (int64_t ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    ReferenceExecutor many = run_two_steps(sharded_perceptron(ranks, /*reduce=*/true));
    for (const char* name : {"loss", "y", "hidden", "w2", "momentum"}) {
      CAPTURE(name);
      CHECK_LT(relative_difference(many.value(name), one.value(name)), 1e-12);
    }
    CHECK_EQ(many.output_names(), std::vector<std::string>{"loss"});
    CHECK_EQ(many.output("loss"), many.value("loss"));
  }
  CHECK_GT(relative_difference(one.value("momentum"), constant_tensor({DType::kF32, {5, 4}}, 0)), 0.01);
}

TEST_CASE("a missing all_reduce is noticed") {
  ReferenceExecutor executor = run_two_steps(sharded_perceptron(2, /*reduce=*/false));
  CHECK_THROWS_AS(executor.value("loss"), SimulationError);
}

TEST_CASE("an operand that does not lie as its node wants it is noticed") {
  Graph graph = sharded_perceptron(2, /*reduce=*/true);
  Node& relu = graph.nodes[5];
  REQUIRE(relu.op == OpKind::kUnary);
  relu.operand_shardings = {{{kReplicate}}};
  CHECK_THROWS_AS(run_two_steps(graph), SimulationError);
  relu.operand_shardings = {{{Placement::shard(1)}}};
  CHECK_NOTHROW(run_two_steps(graph));
}

}  // namespace tpc::testing

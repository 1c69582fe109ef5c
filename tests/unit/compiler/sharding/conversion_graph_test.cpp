#include "compiler/sharding/conversion_graph.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace tpc {
namespace {

TensorSharding sharding_of(const char* text) { return *parse_sharding(text); }

/// In units of (n - 1) / n of the tensor, on one axis of n ranks; dimensions are all large enough.
double cost_of_set(const char* from, const std::vector<const char*>& wanted, int64_t n) {
  Shape shape{16, 16, 16, 16};
  DeviceMesh mesh({{"tp", n}});
  ConversionGraph graph({DType::kF32, shape}, mesh, MovePrice());
  ConversionGraph::State start = graph.add(sharding_of(from));
  std::vector<ConversionGraph::State> targets;
  for (const char* target : wanted) targets.push_back(graph.add(sharding_of(target)));
  double unit = static_cast<double>(num_elements(shape)) * static_cast<double>(n - 1) / static_cast<double>(n) * 4;
  return static_cast<double>(graph.provide_cost(std::vector{start}, targets).price) / unit;
}

}  // namespace

TEST_CASE("a conversion that several uses share is paid once") {
  CHECK(cost_of_set("[P(sum)]", {"[R]", "[S(0)]"}, 8) == doctest::Approx(2));
  CHECK(cost_of_set("[P(sum)]", {"[S(0)]", "[S(1)]"}, 4) == doctest::Approx(1.25));
  CHECK(cost_of_set("[P(sum)]", {"[S(0)]", "[S(1)]", "[S(2)]"}, 4) == doctest::Approx(1.5));
  // Reduced to whole, then sliced.
  CHECK(cost_of_set("[P(sum)]", {"[S(0)]", "[S(1)]", "[S(2)]", "[S(3)]"}, 2) == doctest::Approx(2));
  CHECK(cost_of_set("[S(0)]", {"[S(1)]", "[S(2)]"}, 2) == doctest::Approx(1));
  CHECK(cost_of_set("[S(0)]", {"[S(1)]", "[S(2)]", "[S(3)]"}, 8) == doctest::Approx(3.0 / 8));
  CHECK(cost_of_set("[S(0)]", {"[R]", "[S(1)]"}, 8) == doctest::Approx(1));
  for (int64_t n : {2, 4, 8}) {
    CHECK(cost_of_set("[R]", {"[S(0)]", "[S(1)]", "[P(sum)]"}, n) == 0);
    CHECK(cost_of_set("[S(0)]", {"[P(sum)]"}, n) == 0);
    CHECK(cost_of_set("[P(sum)]", {"[P(sum)]"}, n) == 0);
  }
}

TEST_CASE("a set costs no less than its dearest form, and no more than all of them apart") {
  const std::vector<const char*> forms{"[R, R]",       "[S(0), R]",   "[R, S(0)]",     "[S(1), S(0)]",
                                       "[S(0), S(0)]", "[P(sum), R]", "[S(1), P(sum)]"};
  DeviceMesh mesh({{"dp", 2}, {"tp", 3}});
  for (const Shape& shape : {Shape{12, 12}, Shape{13, 7}}) {
    ConversionGraph graph({DType::kF32, shape}, mesh, MovePrice());
    std::vector<ConversionGraph::State> states;
    for (const char* form : forms) states.push_back(graph.add(sharding_of(form)));
    for (ConversionGraph::State from : states) {
      for (ConversionGraph::State a : states) {
        for (ConversionGraph::State b : states) {
          ConversionCost cost = graph.provide_cost(std::vector{from}, std::vector{a, b});
          CHECK(cost.price >= std::max(graph.cost(from, a).price, graph.cost(from, b).price));
          CHECK(cost <= graph.cost(from, a) + graph.cost(from, b));
          // The order of what is wanted does not matter, and another form to start from only helps.
          CHECK(cost == graph.provide_cost(std::vector{from}, std::vector{b, a}));
          CHECK(graph.provide_cost(std::vector{from, a}, std::vector{b}).price <= graph.cost(from, b).price);
        }
      }
    }
  }
}

TEST_CASE("the edges of a tree lead from what there is to all that is wanted, at the price told") {
  DeviceMesh mesh({{"dp", 2}, {"tp", 4}});
  ConversionGraph graph({DType::kF32, {16, 16}}, mesh, MovePrice());
  ConversionGraph::State from = graph.add(sharding_of("[P(sum), P(sum)]"));
  std::vector<ConversionGraph::State> wanted{graph.add(sharding_of("[R, S(0)]")),
                                             graph.add(sharding_of("[S(1), S(0)]")), graph.add(sharding_of("[R, R]"))};
  std::vector<ConversionGraph::State> reached{from};
  ConversionCost total;
  for (auto [before, after] : graph.provide(std::vector{from}, wanted)) {
    CHECK(std::find(reached.begin(), reached.end(), before) != reached.end());
    reached.push_back(after);
    total += graph.cost(before, after);
    ConversionCost path;
    for (const Move& move : graph.path(before, after)) {
      path += {MovePrice()(move, {16, 16}, 4, mesh), communicates(move.kind) ? 1 : 0, 1};
    }
    CHECK(path == graph.cost(before, after));
  }
  for (ConversionGraph::State state : wanted) CHECK(std::find(reached.begin(), reached.end(), state) != reached.end());
  CHECK(total == graph.provide_cost(std::vector{from}, wanted));
}

TEST_CASE("time: steps of a ring and bytes over bandwidth, at the pace of the slowest axis") {
  DeviceMesh mesh({{"dp", 2}, {"tp", 4}});
  MovePrice time({{"tp", 100e9, 1e-6}, {"dp", 10e9, 5e-6}});
  auto move = [&](MoveKind kind, std::vector<int64_t> axes, const char* from, const char* to) {
    return Move{kind, std::move(axes), sharding_of(from), sharding_of(to)};
  };
  Shape shape{1000, 1000};
  // 4 MB: a rank receives 3 MB in three steps of 1 us.
  CHECK(time(move(MoveKind::kAllGather, {1}, "[R, S(0)]", "[R, R]"), shape, 4, mesh) == 33'000'000);
  CHECK(time(move(MoveKind::kAllReduce, {1}, "[R, P(sum)]", "[R, R]"), shape, 4, mesh) == 66'000'000);
  // Eight ranks over both axes: 3.5 MB at 10 GB/s, seven steps of 5 us.
  CHECK(time(move(MoveKind::kReduceScatter, {0, 1}, "[P(sum), P(sum)]", "[S(0), S(0)]"), shape, 4, mesh) ==
        385'000'000);
  CHECK(time(move(MoveKind::kSlice, {1}, "[R, R]", "[R, S(0)]"), shape, 4, mesh) == 0);
}

TEST_CASE("links read back from their text; malformed text does not") {
  std::vector<AxisLink> links{{"tp", 4.5e11, 3e-6}, {"dp", 5e10, 0}};
  CHECK(parse_links(links_text(links)) == links);
  CHECK(parse_links("") == std::vector<AxisLink>{});
  for (const char* text : {"tp", "tp:1", "tp:1:x", "tp:0:1", ":1:1", "tp:1:-1", "tp:1:1:1", "tp:inf:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_links(text).has_value());
  }
}

}  // namespace tpc

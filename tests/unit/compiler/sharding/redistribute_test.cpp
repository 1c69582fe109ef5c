#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/core/check.h"
#include "compiler/sharding/conversion_graph.h"
#include "tests/unit/compiler/sharding/move_simulation.h"

namespace tpc {
namespace {

DeviceMesh mesh_of(const std::string& text) { return parse_mesh(text).value(); }
TensorSharding sharding_of(const std::string& text) { return parse_sharding(text).value(); }

std::vector<TensorSharding> legal_shardings(const Shape& shape, const DeviceMesh& mesh) {
  std::vector<TensorSharding> all{{}};
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    std::vector<TensorSharding> longer;
    for (const TensorSharding& prefix : all) {
      for (const Placement& placement :
           {Placement::replicate(), Placement::shard(0), Placement::shard(1), Placement::partial()}) {
        longer.push_back(prefix);
        longer.back().placements.push_back(placement);
      }
    }
    all = std::move(longer);
  }
  std::erase_if(all, [&](const TensorSharding& sharding) { return why_illegal(shape, sharding, mesh).has_value(); });
  return all;
}

int64_t cost_of(const std::vector<Move>& moves, const Shape& shape, const DeviceMesh& mesh) {
  int64_t cost = 0;
  for (const Move& move : moves) cost += max_received_elements(move, shape, mesh);
  return cost;
}

int64_t num_collectives(const std::vector<Move>& moves) {
  return std::count_if(moves.begin(), moves.end(), [](const Move& move) { return communicates(move.kind); });
}

void check_conversion(const Shape& shape, const TensorSharding& from, const TensorSharding& to,
                      const DeviceMesh& mesh) {
  INFO(to_string(mesh) << " " << to_string(shape) << ": " << to_string(from) << " -> " << to_string(to));
  std::vector<Move> moves = redistribute(shape, from, to, mesh);
  CHECK(moves.empty() == (from == to));
  MoveSimulation simulation(shape, from, mesh);
  CHECK(simulation.holds(from));
  TensorSharding state = from;
  for (const Move& move : moves) {
    INFO(to_string(move.kind) << " " << to_string(move.from) << " -> " << to_string(move.to));
    CHECK(move.from == state);
    CHECK(std::is_sorted(move.axes.begin(), move.axes.end()));
    CHECK_NOTHROW(simulation.apply(move));
    int64_t most = 0;
    for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
      CHECK(received_elements(move, shape, mesh, mesh.coordinate(rank)) == simulation.received(rank));
      most = std::max(most, simulation.received(rank));
    }
    CHECK(max_received_elements(move, shape, mesh) == most);
    state = move.to;
  }
  CHECK(state == to);
  CHECK(simulation.holds(to));
}

TEST_CASE("redistribute: every pair of placements on small meshes") {
  for (std::string mesh_text : {"[tp=2]", "[tp=3]", "[dp=2, tp=2]", "[dp=4, tp=2]"}) {
    DeviceMesh mesh = mesh_of(mesh_text);
    for (const Shape& shape : {Shape{8, 8}, Shape{5, 9}}) {
      std::vector<TensorSharding> all = legal_shardings(shape, mesh);
      for (const TensorSharding& from : all) {
        for (const TensorSharding& to : all) check_conversion(shape, from, to, mesh);
      }
    }
  }
}

TEST_CASE("redistribute: whole units stay whole") {
  DeviceMesh mesh = mesh_of("[tp=3]");
  for (std::string from : {"[S(0:4)]", "[S(0)]", "[S(1)]", "[R]", "[P(sum)]"}) {
    for (std::string to : {"[S(0:4)]", "[S(0)]", "[S(1)]", "[R]", "[P(sum)]"}) {
      check_conversion({16, 3}, sharding_of(from), sharding_of(to), mesh);
    }
  }
}

// The search visits the dimensions that either end shards, and partial sums on axes where either end has one.
bool is_searched(const TensorSharding& via, const TensorSharding& from, const TensorSharding& to) {
  for (size_t axis = 0; axis < via.placements.size(); ++axis) {
    const Placement& placement = via.placements[axis];
    auto is_it = [&](const Placement& other) { return other == placement; };
    bool at_an_end = placement.is_partial() ? is_it(from.placements[axis]) || is_it(to.placements[axis])
                                            : std::any_of(from.placements.begin(), from.placements.end(), is_it) ||
                                                  std::any_of(to.placements.begin(), to.placements.end(), is_it);
    if (!placement.is_replicate() && !at_an_end) return false;
  }
  return true;
}

TEST_CASE("redistribute: no way round over the placements of both ends is cheaper") {
  for (std::string mesh_text : {"[tp=3]", "[dp=2, tp=2]", "[dp=4, tp=2]"}) {
    DeviceMesh mesh = mesh_of(mesh_text);
    for (const Shape& shape : {Shape{16, 16}, Shape{12, 12}, Shape{5, 9}}) {
      std::vector<TensorSharding> all = legal_shardings(shape, mesh);
      std::map<std::pair<TensorSharding, TensorSharding>, int64_t> cost;
      for (const TensorSharding& from : all) {
        for (const TensorSharding& to : all)
          cost[{from, to}] = cost_of(redistribute(shape, from, to, mesh), shape, mesh);
      }
      for (const auto& [pair, direct] : cost) {
        for (const TensorSharding& via : all) {
          if (!is_searched(via, pair.first, pair.second)) continue;
          INFO(to_string(pair.first) << " -> " << to_string(via) << " -> " << to_string(pair.second));
          CHECK(direct <= cost.at({pair.first, via}) + cost.at({via, pair.second}));
        }
      }
    }
  }
}

// In units of (n - 1) / n of the tensor, times n: sharding algebra of one axis.
TEST_CASE("redistribute: costs on one axis") {
  Shape shape{24, 24};
  for (int64_t n : {2, 3, 4, 8}) {
    DeviceMesh mesh({{"tp", n}});
    auto units = [&](const char* from, const char* to) {
      int64_t cost = cost_of(redistribute(shape, sharding_of(from), sharding_of(to), mesh), shape, mesh);
      return cost * n * n / ((n - 1) * num_elements(shape));
    };
    CHECK(units("[R]", "[S(0)]") == 0);
    CHECK(units("[R]", "[P(sum)]") == 0);
    CHECK(units("[S(0)]", "[P(sum)]") == 0);
    CHECK(units("[S(0)]", "[R]") == n);
    CHECK(units("[S(0)]", "[S(1)]") == 1);
    CHECK(units("[P(sum)]", "[S(1)]") == n);
    CHECK(units("[P(sum)]", "[R]") == 2 * n);
  }
}

struct TwoAxisExample {
  std::string mesh;
  std::string from;
  std::string to;
  int64_t cost;  ///< in 64ths of the tensor
  int64_t collectives;
};

// Axes are (major, minor).
TEST_CASE("redistribute: costs on two axes depend on the order of steps") {
  Shape shape{16, 16};
  for (const TwoAxisExample& example : {
           TwoAxisExample{"[x=2, y=4]", "[P(sum), P(sum)]", "[S(0), R]", 80, 2},
           TwoAxisExample{"[x=2, y=4]", "[P(sum), P(sum)]", "[R, R]", 112, 1},
           TwoAxisExample{"[x=2, y=4]", "[S(0), S(0)]", "[R, R]", 56, 1},
           TwoAxisExample{"[x=2, y=4]", "[S(1), S(0)]", "[R, R]", 56, 2},
           TwoAxisExample{"[x=2, y=4]", "[S(0), P(sum)]", "[R, R]", 80, 2},
           TwoAxisExample{"[x=2, y=2]", "[R, S(0)]", "[S(0), R]", 32, 1},
           // An all_to_all over both axes (7/64), then an all_gather (24/64). One axis at a time it would be 40.
           TwoAxisExample{"[x=2, y=4]", "[S(0), S(0)]", "[S(1), R]", 31, 2},
           TwoAxisExample{"[x=2, y=4]", "[S(0), R]", "[S(0), S(0)]", 0, 0},
       }) {
    INFO(example.mesh << ": " << example.from << " -> " << example.to);
    DeviceMesh mesh = mesh_of(example.mesh);
    std::vector<Move> moves = redistribute(shape, sharding_of(example.from), sharding_of(example.to), mesh);
    CHECK(cost_of(moves, shape, mesh) * 64 == example.cost * num_elements(shape));
    CHECK(num_collectives(moves) == example.collectives);
  }
}

TEST_CASE("redistribute: a partial sum is scattered on one axis before it is reduced on the other") {
  DeviceMesh mesh = mesh_of("[x=2, y=4]");
  std::vector<Move> moves = redistribute({16, 16}, sharding_of("[P(sum), P(sum)]"), sharding_of("[S(0), R]"), mesh);
  REQUIRE(moves.size() == 2);
  CHECK(moves[0].kind == MoveKind::kReduceScatter);
  CHECK(moves[0].axes == std::vector<int64_t>{0});
  CHECK(moves[1].kind == MoveKind::kAllReduce);
  CHECK(moves[1].axes == std::vector<int64_t>{1});
}

TEST_CASE("redistribute: axes with the same change move as one group") {
  DeviceMesh mesh = mesh_of("[tp.0=2, tp.1=4]");
  std::vector<Move> moves = redistribute({16, 16}, sharding_of("[P(sum), P(sum)]"), sharding_of("[S(1), S(1)]"), mesh);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].kind == MoveKind::kReduceScatter);
  CHECK(moves[0].axes == std::vector<int64_t>{0, 1});
}

TEST_CASE("redistribute: the same question has the same answer") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=2]");
  Shape shape{12, 12};
  for (const TensorSharding& from : legal_shardings(shape, mesh)) {
    for (const TensorSharding& to : legal_shardings(shape, mesh)) {
      CHECK(redistribute(shape, from, to, mesh) == redistribute(shape, from, to, mesh));
    }
  }
}

TEST_CASE("redistribute: maxima") {
  DeviceMesh mesh = mesh_of("[tp=2]");
  std::vector<Move> moves = redistribute({8}, sharding_of("[P(max)]"), sharding_of("[R]"), mesh);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].kind == MoveKind::kAllReduce);
  CHECK(moves[0].from == sharding_of("[P(max)]"));
  // Zeros are not neutral for a maximum, so nothing becomes one.
  CHECK_THROWS_AS(redistribute({8}, sharding_of("[R]"), sharding_of("[P(max)]"), mesh), InternalError);
  CHECK_THROWS_AS(redistribute({8}, sharding_of("[S(0)]"), sharding_of("[P(max)]"), mesh), InternalError);
}

}  // namespace
}  // namespace tpc

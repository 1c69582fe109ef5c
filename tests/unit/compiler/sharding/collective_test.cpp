#include "compiler/sharding/collective.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

namespace tpc {
namespace {

DeviceMesh mesh_of(const std::string& text) { return parse_mesh(text).value(); }
TensorSharding sharding_of(const std::string& text) { return parse_sharding(text).value(); }

Move move_of(MoveKind kind, std::vector<int64_t> axes, const char* from, const char* to) {
  return {kind, std::move(axes), sharding_of(from), sharding_of(to)};
}

std::vector<int64_t> received(const Move& move, const Shape& shape, const DeviceMesh& mesh) {
  std::vector<int64_t> result;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    result.push_back(received_elements(move, shape, mesh, mesh.coordinate(rank)));
  }
  return result;
}

const Move kAllReduceMove = move_of(MoveKind::kAllReduce, {0}, "[P(sum)]", "[R]");
const Move kReduceScatterMove = move_of(MoveKind::kReduceScatter, {0}, "[P(sum)]", "[S(0)]");
const Move kAllGatherMove = move_of(MoveKind::kAllGather, {0}, "[S(0)]", "[R]");
const Move kAllToAllMove = move_of(MoveKind::kAllToAll, {0}, "[S(0)]", "[S(1)]");

TEST_CASE("collective: names") {
  CHECK(to_string(MoveKind::kAllReduce) == "all_reduce");
  CHECK(to_string(MoveKind::kReduceScatter) == "reduce_scatter");
  CHECK(to_string(MoveKind::kAllGather) == "all_gather");
  CHECK(to_string(MoveKind::kAllToAll) == "all_to_all");
  CHECK(to_string(MoveKind::kSlice) == "slice");
  CHECK(to_string(MoveKind::kMask) == "mask");
  CHECK(to_string(MoveKind::kZeroPad) == "zero_pad");
}

TEST_CASE("collective: what a rank receives when blocks are uneven") {
  DeviceMesh mesh = mesh_of("[tp=3]");
  CHECK(received(kAllGatherMove, {8}, mesh) == std::vector<int64_t>{5, 5, 6});
  CHECK(received(kReduceScatterMove, {8}, mesh) == std::vector<int64_t>{6, 6, 4});
  CHECK(received(kAllReduceMove, {8}, mesh) == std::vector<int64_t>{11, 11, 10});
  CHECK(received(kAllReduceMove, {4, 32, 128}, mesh) == std::vector<int64_t>{21846, 21845, 21845});
  CHECK(received(kAllToAllMove, {12, 8, 16}, mesh) == std::vector<int64_t>{384, 384, 256});
}

TEST_CASE("collective: even blocks give the ring formulas") {
  Shape shape{4, 32, 128};
  std::vector<int64_t> ranks{2, 4, 8};
  std::vector<int64_t> gathered{32768, 49152, 57344};
  std::vector<int64_t> exchanged{16384, 12288, 7168};
  for (size_t i = 0; i < ranks.size(); ++i) {
    DeviceMesh mesh({{"tp", ranks[i]}});
    auto bytes = [&](MoveKind kind, const char* from, const char* to) {
      Move move = move_of(kind, {0}, from, to);
      std::vector<int64_t> all = received(move, shape, mesh);
      CHECK(std::all_of(all.begin(), all.end(), [&](int64_t one) { return one == all[0]; }));
      CHECK(max_received_elements(move, shape, mesh) == all[0]);
      return all[0] * 4;
    };
    CHECK(bytes(MoveKind::kAllGather, "[S(2)]", "[R]") == gathered[i]);
    CHECK(bytes(MoveKind::kReduceScatter, "[P(sum)]", "[S(1)]") == gathered[i]);
    CHECK(bytes(MoveKind::kAllReduce, "[P(sum)]", "[R]") == 2 * gathered[i]);
    CHECK(bytes(MoveKind::kAllToAll, "[S(1)]", "[S(2)]") == exchanged[i]);
  }
}

TEST_CASE("collective: local moves receive nothing") {
  DeviceMesh mesh = mesh_of("[tp=3]");
  for (const Move& move :
       {move_of(MoveKind::kSlice, {0}, "[R]", "[S(0)]"), move_of(MoveKind::kMask, {0}, "[R]", "[P(sum)]"),
        move_of(MoveKind::kZeroPad, {0}, "[S(0)]", "[P(sum)]")}) {
    CHECK_FALSE(communicates(move.kind));
    CHECK(received(move, {8}, mesh) == std::vector<int64_t>{0, 0, 0});
    CHECK(max_received_elements(move, {8}, mesh) == 0);
  }
  for (const Move& move : {kAllReduceMove, kReduceScatterMove, kAllGatherMove, kAllToAllMove}) {
    CHECK(communicates(move.kind));
  }
}

TEST_CASE("collective: the other axes make the tensor smaller") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=2]");
  Move move = move_of(MoveKind::kAllReduce, {1}, "[S(0), P(sum)]", "[S(0), R]");
  // 5 rows on dp: 3 and 2, of 4 columns each.
  CHECK(received(move, {5, 4}, mesh) == std::vector<int64_t>{12, 12, 8, 8});
  CHECK(max_received_elements(move, {5, 4}, mesh) == 12);
  CHECK(volume_elements(move, {5, 4}, mesh, std::vector<int64_t>{0, 1}) == 12);
  CHECK(volume_elements(move, {5, 4}, mesh, std::vector<int64_t>{1, 0}) == 8);
}

TEST_CASE("collective: the volume is whole on the axes of the group") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=4]");
  for (const Move& move : {move_of(MoveKind::kAllGather, {1}, "[S(0), S(1)]", "[S(0), R]"),
                           move_of(MoveKind::kReduceScatter, {1}, "[S(0), P(sum)]", "[S(0), S(1)]")}) {
    CHECK(volume_elements(move, {8, 8}, mesh, std::vector<int64_t>{0, 0}) == 32);
    // The ring formula of both: B (n - 1) / n.
    CHECK(max_received_elements(move, {8, 8}, mesh) == 32 * 3 / 4);
  }
}

TEST_CASE("collective: the receives of an all_reduce add up to twice the tensor for all but one rank") {
  for (int64_t ranks = 1; ranks <= 6; ++ranks) {
    for (int64_t size = ranks; size <= 20; ++size) {
      std::vector<int64_t> all = received(kAllReduceMove, {size}, DeviceMesh({{"tp", ranks}}));
      CHECK(std::accumulate(all.begin(), all.end(), int64_t{0}) == 2 * (ranks - 1) * size);
    }
  }
}

TEST_CASE("collective: a small mesh is represented by all its ranks in order") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=3]");
  std::vector<std::vector<int64_t>> coordinates = representative_coordinates(mesh, std::vector<int64_t>{8});
  REQUIRE(coordinates.size() == 6);
  for (size_t rank = 0; rank < 6; ++rank) CHECK(coordinates[rank] == mesh.coordinate(static_cast<int64_t>(rank)));
  CHECK(representative_coordinates(DeviceMesh(), std::vector<int64_t>{}).size() == 1);
}

TEST_CASE("collective: a large mesh is represented by few ranks that reach the extremes") {
  DeviceMesh huge = mesh_of("[dp=128, tp=128]");
  CHECK(representative_coordinates(huge, std::vector<int64_t>{1000, 4096}).size() < 100);

  DeviceMesh mesh = mesh_of("[dp=9, tp=11]");
  std::vector<Move> moves{
      move_of(MoveKind::kAllReduce, {1}, "[S(0), P(sum)]", "[S(0), R]"),
      move_of(MoveKind::kAllReduce, {0, 1}, "[P(sum), P(sum)]", "[R, R]"),
      move_of(MoveKind::kReduceScatter, {1}, "[R, P(sum)]", "[R, S(1)]"),
      move_of(MoveKind::kReduceScatter, {1}, "[S(0), P(sum)]", "[S(0), S(0)]"),
      move_of(MoveKind::kAllGather, {1}, "[S(0), S(1)]", "[S(0), R]"),
      move_of(MoveKind::kAllGather, {0, 1}, "[S(0), S(0)]", "[R, R]"),
      move_of(MoveKind::kAllToAll, {1}, "[S(0), S(1)]", "[S(0), S(0)]"),
      move_of(MoveKind::kAllToAll, {1}, "[R, S(1)]", "[R, S(0)]"),
  };
  for (const Shape& shape : {Shape{99, 99}, Shape{100, 23}, Shape{131, 30}, Shape{207, 111}}) {
    for (const Move& move : moves) {
      CAPTURE(to_string(shape));
      CAPTURE(to_string(move.kind));
      CAPTURE(to_string(move.from));
      std::vector<int64_t> all = received(move, shape, mesh);
      CHECK(max_received_elements(move, shape, mesh) == *std::max_element(all.begin(), all.end()));
    }
  }
}

}  // namespace
}  // namespace tpc

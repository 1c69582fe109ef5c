// What holds of every move: the tensor that the parts stand for stays the same.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/sharding/conversion_graph.h"
#include "tests/support/simulated_ranks.h"

namespace tpc::testing {
namespace {

std::vector<TensorSharding> legal_shardings(const Shape& shape, const DeviceMesh& mesh) {
  std::vector<Placement> placements{Placement::replicate(), Placement::partial()};
  for (size_t d = 0; d < shape.size(); ++d) {
    placements.push_back(Placement::shard(static_cast<int64_t>(d)));
    if (shape[d] % 2 == 0) placements.push_back(Placement::shard(static_cast<int64_t>(d), 2));
  }
  std::vector<TensorSharding> shardings{{}};
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    std::vector<TensorSharding> longer;
    for (const TensorSharding& sharding : shardings) {
      for (const Placement& placement : placements) {
        longer.push_back(sharding);
        longer.back().placements.push_back(placement);
      }
    }
    shardings = std::move(longer);
  }
  std::vector<TensorSharding> legal;
  for (TensorSharding& sharding : shardings) {
    if (why_illegal(shape, sharding, mesh)) continue;
    sharding = canonical(shape, std::move(sharding), mesh);
    if (std::find(legal.begin(), legal.end(), sharding) == legal.end()) legal.push_back(std::move(sharding));
  }
  return legal;
}

const OpDef* reference_of(MoveKind kind) {
  if (communicates(kind)) return nullptr;
  if (kind == MoveKind::kSlice) return &kLocalSliceOp;
  return kind == MoveKind::kMask ? &kMaskOp : &kZeroPadOp;
}

bool same_parts(const RankTensors& a, const RankTensors& b) {
  for (size_t rank = 0; rank < a.size(); ++rank) {
    if (a[rank].region != b[rank].region || a[rank].data != b[rank].data) return false;
  }
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("redistribution keeps the tensor, move by move, and local moves equal their ops") {
  struct Case {
    Shape shape;
    DeviceMesh mesh;
  };
  for (const Case& c : {Case{{4, 5}, DeviceMesh({{"x", 2}})}, Case{{5, 6}, DeviceMesh({{"x", 3}})},
                        Case{{4, 6}, DeviceMesh({{"x", 2}, {"y", 2}})}, Case{{7}, DeviceMesh({{"x", 2}, {"y", 3}})}}) {
    TensorType type{DType::kF32, c.shape};
    GlobalTensor tensor = random_normal_tensor(type, 1, "tensor");
    std::vector<TensorSharding> shardings = legal_shardings(c.shape, c.mesh);
    for (const TensorSharding& from : shardings) {
      RankTensors start = shard_tensor(tensor, from, c.mesh);
      for (const TensorSharding& to : shardings) {
        INFO(to_string(c.shape), " ", to_string(c.mesh), " ", to_string(from), " to ", to_string(to));
        RankTensors parts = start;
        TensorSharding now = from;
        for (const Move& move : redistribute(c.shape, from, to, c.mesh)) {
          INFO(to_string(move.kind), " ", to_string(move.from), " to ", to_string(move.to));
          CHECK_EQ(move.from, now);
          RankTensors moved = apply_move(move, c.shape, parts, c.mesh);
          CHECK_LT(relative_difference(assemble_tensor(type, moved, move.to, c.mesh), tensor), 1e-12);
          if (const OpDef* op = reference_of(move.kind)) {
            Attributes attributes{{"axes", move.axes}};
            TypedOp typed{*op, attributes, {type}, {type}};
            const RankTensors* operand = &parts;
            CHECK(same_parts(run_on_ranks(typed, std::span(&operand, 1), std::span(&move.to, 1), c.mesh)[0], moved));
          }
          parts = std::move(moved);
          now = move.to;
        }
        CHECK_EQ(now, to);
      }
    }
  }
}

TEST_CASE("a maximum over ranks is reduced as a maximum") {
  DeviceMesh mesh({{"x", 3}});
  TensorType type{DType::kF32, {4}};
  GlobalTensor tensor = random_normal_tensor(type, 1, "tensor");
  TensorSharding partial{{Placement::partial(ReduceOp::kMax)}};
  RankTensors parts = shard_tensor(tensor, partial, mesh);
  CHECK_EQ(assemble_tensor(type, parts, partial, mesh), tensor);
  for (const Move& move : {Move{MoveKind::kAllReduce, {0}, partial, TensorSharding::replicated(mesh)},
                           Move{MoveKind::kReduceScatter, {0}, partial, {{Placement::shard(0)}}}}) {
    CHECK_EQ(assemble_tensor(type, apply_move(move, type.shape, parts, mesh), move.to, mesh), tensor);
  }
}

// A check that never failed is unproven.
TEST_CASE("the simulated ranks notice contradictions") {
  DeviceMesh mesh({{"x", 2}});
  TensorType type{DType::kF32, {4}};
  TensorSharding replicated = TensorSharding::replicated(mesh);
  TensorSharding sharded{{Placement::shard(0)}};
  GlobalTensor tensor = random_normal_tensor(type, 1, "tensor");

  RankTensors replicas = shard_tensor(tensor, replicated, mesh);
  replicas[1].data[2] += 1e-15;
  CHECK_THROWS_AS(assemble_tensor(type, replicas, replicated, mesh), SimulationError);

  RankTensors blocks = shard_tensor(tensor, sharded, mesh);
  CHECK_THROWS_AS(assemble_tensor(type, blocks, replicated, mesh), SimulationError);
  Move gather{MoveKind::kAllGather, {0}, sharded, replicated};
  CHECK_EQ(assemble_tensor(type, apply_move(gather, type.shape, blocks, mesh), replicated, mesh), tensor);
  blocks[1] = blocks[0];
  CHECK_THROWS_AS(apply_move(gather, type.shape, blocks, mesh), SimulationError);

  // The outer axis alone holds every other block only.
  DeviceMesh square({{"x", 2}, {"y", 2}});
  TensorSharding both{{Placement::shard(0), Placement::shard(0)}};
  Move outer{MoveKind::kAllGather, {0}, both, {{Placement::replicate(), Placement::shard(0)}}};
  CHECK_THROWS_AS(apply_move(outer, type.shape, shard_tensor(tensor, both, square), square), SimulationError);
}

}  // namespace tpc::testing

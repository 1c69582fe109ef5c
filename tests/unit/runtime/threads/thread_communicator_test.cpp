// Every collective against its definition, on meshes of one and two axes, with blocks of different sizes.
#include "runtime/threads/thread_communicator.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/core/bfloat16.h"
#include "compiler/core/philox.h"
#include "compiler/sharding/collective.h"
#include "tests/unit/runtime/threads/rank_team.h"

namespace tpc {
namespace {

using testing::run_ranks;

const Placement kR = Placement::replicate();
const Placement kP = Placement::partial();
Placement shard(int64_t dim) { return Placement::shard(dim); }

struct Case {
  OpKind op;
  MoveKind move;
  DeviceMesh mesh;
  std::vector<int64_t> axes;
  Shape shape;
  TensorSharding from;
  TensorSharding to;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
};

// What `rank` holds of element `index` of the source: its own contribution when the tensor is Partial there.
float value_at(const Case& c, int64_t rank, int64_t index) {
  auto value = static_cast<float>(index);
  if (c.from.has_partial()) {
    value = static_cast<float>(random_normal(philox_key(3, std::to_string(rank)), 0, static_cast<uint64_t>(index)));
  }
  return c.dtype == DType::kBF16 ? static_cast<float>(BFloat16(value)) : value;
}

std::vector<int64_t> global_indices(const Region& region, const Shape& shape) {
  Shape strides = row_major_strides(shape);
  std::vector<int64_t> indices{0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> longer;
    for (int64_t base : indices) {
      for (int64_t i = region.dims[d].begin; i < region.dims[d].end; ++i) longer.push_back(base + i * strides[d]);
    }
    indices = longer;
  }
  return indices;
}

// The definition; sums in the order of the group.
float wanted_at(const Case& c, const std::vector<int64_t>& group, int64_t index) {
  float result = value_at(c, group[0], index);
  if (c.op != OpKind::kAllReduce && c.op != OpKind::kReduceScatter) return result;
  for (size_t member = 1; member < group.size(); ++member) {
    float value = value_at(c, group[member], index);
    result = c.reduce == ReduceOp::kMax ? std::max(result, value) : result + value;
  }
  return result;
}

CollectiveStep make_step(const Case& c, int64_t rank, void* input, void* output) {
  CollectiveStep step;
  step.op = c.op;
  step.reduce = c.reduce;
  step.group = c.mesh.group(c.axes, rank);
  std::vector<int64_t> coordinate = c.mesh.coordinate(rank);
  step.index = c.mesh.index_in_group(c.axes, coordinate);
  TensorType type{c.dtype, c.shape};
  step.input = {type, local_region(c.shape, c.from, c.mesh, coordinate), input};
  step.output = {type, local_region(c.shape, c.to, c.mesh, coordinate), output};
  for (int64_t member : step.group) {
    step.input_regions.push_back(local_region(c.shape, c.from, c.mesh, c.mesh.coordinate(member)));
    step.output_regions.push_back(local_region(c.shape, c.to, c.mesh, c.mesh.coordinate(member)));
  }
  step.name = "x";
  return step;
}

// Runs the case twice with the input `shift` elements behind the output in one memory (far apart when negative), and
// returns how many elements or byte counts are wrong.
int num_wrong(const Case& c, int64_t shift) {
  ThreadWorld world(c.mesh.world_size(), {});
  Move move{c.move, c.axes, c.from, c.to};
  int64_t total = num_elements(c.shape);
  // The memory of every rank outlives all runs.
  std::vector<std::vector<float>> memory(static_cast<size_t>(c.mesh.world_size()),
                                         std::vector<float>(static_cast<size_t>(3 * total + 1)));
  std::atomic<int> wrong{0};
  run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
    const int64_t size = byte_size(c.dtype);
    char* output = reinterpret_cast<char*>(memory[static_cast<size_t>(rank)].data());
    char* input = output + (shift < 0 ? 2 * total : shift) * size;
    CollectiveStep step = make_step(c, rank, input, output);
    std::unique_ptr<Collective> collective = communicator.prepare(step);
    auto put = [&](void* at, float value) {
      auto whole = static_cast<int32_t>(value);
      BFloat16 rounded(value);
      const void* element = c.dtype == DType::kF32    ? static_cast<const void*>(&value)
                            : c.dtype == DType::kBF16 ? static_cast<const void*>(&rounded)
                                                      : &whole;
      std::memcpy(at, element, static_cast<size_t>(size));
    };
    for (int repetition = 0; repetition < 2; ++repetition) {
      std::vector<int64_t> held = global_indices(step.input.region, c.shape);
      for (size_t i = 0; i < held.size(); ++i) put(input + static_cast<int64_t>(i) * size, value_at(c, rank, held[i]));
      int64_t bytes = collective->run();
      if (bytes != size * received_elements(move, c.shape, c.mesh, c.mesh.coordinate(rank))) ++wrong;
      std::vector<int64_t> made = global_indices(step.output.region, c.shape);
      for (size_t i = 0; i < made.size(); ++i) {
        float wanted = 0;
        put(&wanted, wanted_at(c, step.group, made[i]));
        const char* found = output + static_cast<int64_t>(i) * size;
        if (std::memcmp(&wanted, found, static_cast<size_t>(size)) != 0) ++wrong;
      }
    }
  });
  world.rethrow_failure();
  return wrong;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int64_t n : {2, 3, 4}) {
    DeviceMesh mesh({{"tp", n}});
    for (const Shape& shape : {Shape{7, 5, 4}, Shape{4, 6}, Shape{41, 4, 9}}) {
      cases.push_back({OpKind::kAllReduce, MoveKind::kAllReduce, mesh, {0}, shape, {{kP}}, {{kR}}});
      for (int64_t d : {0, 1}) {
        cases.push_back({OpKind::kReduceScatter, MoveKind::kReduceScatter, mesh, {0}, shape, {{kP}}, {{shard(d)}}});
        for (DType dtype : {DType::kF32, DType::kI32}) {
          cases.push_back({OpKind::kAllGather, MoveKind::kAllGather, mesh, {0}, shape, {{shard(d)}}, {{kR}}, dtype});
          cases.push_back(
              {OpKind::kAllToAll, MoveKind::kAllToAll, mesh, {0}, shape, {{shard(d)}}, {{shard(1 - d)}}, dtype});
        }
      }
    }
    TensorSharding partial_max{{Placement::partial(ReduceOp::kMax)}};
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{2}, Shape{5000}}) {
      cases.push_back({OpKind::kAllReduce, MoveKind::kAllReduce, mesh, {0}, shape, {{kP}}, {{kR}}});
      cases.push_back({OpKind::kAllReduce,
                       MoveKind::kAllReduce,
                       mesh,
                       {0},
                       shape,
                       partial_max,
                       {{kR}},
                       DType::kF32,
                       ReduceOp::kMax});
    }
  }
  DeviceMesh mesh({{"dp", 2}, {"tp", 3}});
  const Shape shape{8, 9, 2};
  for (int64_t axis : {0, 1}) {
    auto on_axis = [&](Placement p, Placement other) {
      return axis == 0 ? TensorSharding{{p, other}} : TensorSharding{{other, p}};
    };
    for (Placement other : {kR, shard(1)}) {
      cases.push_back(
          {OpKind::kAllReduce, MoveKind::kAllReduce, mesh, {axis}, shape, on_axis(kP, other), on_axis(kR, other)});
      cases.push_back({OpKind::kAllGather,
                       MoveKind::kAllGather,
                       mesh,
                       {axis},
                       shape,
                       on_axis(shard(0), other),
                       on_axis(kR, other)});
      cases.push_back({OpKind::kReduceScatter,
                       MoveKind::kReduceScatter,
                       mesh,
                       {axis},
                       shape,
                       on_axis(kP, other),
                       on_axis(shard(0), other)});
    }
  }
  cases.push_back({OpKind::kAllReduce, MoveKind::kAllReduce, mesh, {0, 1}, shape, {{kP, kP}}, {{kR, kR}}});
  cases.push_back({OpKind::kAllGather, MoveKind::kAllGather, mesh, {0, 1}, shape, {{shard(0), shard(0)}}, {{kR, kR}}});
  cases.push_back(
      {OpKind::kReduceScatter, MoveKind::kReduceScatter, mesh, {0, 1}, shape, {{kP, kP}}, {{shard(1), shard(1)}}});
  for (size_t i = 0, count = cases.size(); i < count; ++i) {
    if (cases[i].dtype != DType::kF32) continue;
    cases.push_back(cases[i]);
    cases.back().dtype = DType::kBF16;
  }
  return cases;
}

TEST_CASE("collectives do what their names say, and receive what is predicted") {
  for (const Case& c : all_cases()) {
    CAPTURE(to_string(c.move));
    CAPTURE(to_string(c.mesh));
    CAPTURE(to_string(c.shape));
    CAPTURE(to_string(c.from));
    CAPTURE(to_string(c.to));
    CHECK(num_wrong(c, /*shift=*/-1) == 0);
  }
}

TEST_CASE("collectives may write over their input, wholly or in part") {
  for (const Case& c : all_cases()) {
    CAPTURE(to_string(c.move));
    CAPTURE(to_string(c.mesh));
    CAPTURE(to_string(c.shape));
    CAPTURE(to_string(c.from));
    for (int64_t shift : {0, 3}) CHECK(num_wrong(c, shift) == 0);
  }
}

TEST_CASE("a maximum keeps a NaN") {
  DeviceMesh mesh({{"tp", 2}});
  Case c{OpKind::kAllReduce, MoveKind::kAllReduce, mesh, {0}, {4}, {{Placement::partial(ReduceOp::kMax)}}, {{kR}}};
  c.reduce = ReduceOp::kMax;
  ThreadWorld world(2, {});
  std::vector<std::vector<float>> memory(2, std::vector<float>(8, 1.0F));
  memory[1][2] = std::numeric_limits<float>::quiet_NaN();
  run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
    float* data = memory[static_cast<size_t>(rank)].data();
    communicator.prepare(make_step(c, rank, data, data + 4))->run();
  });
  world.rethrow_failure();
  for (const std::vector<float>& m : memory) {
    CHECK(std::isnan(m[6]));
    CHECK(m[5] == 1.0F);
  }
}

TEST_CASE("many collectives in a row with more ranks than cores") {
  DeviceMesh mesh({{"tp", 8}});
  Case c{OpKind::kAllReduce, MoveKind::kAllReduce, mesh, {0}, {11}, {{kP}}, {{kR}}};
  for (bool spin : {false, true}) {
    ThreadWorld world(8, {spin, std::chrono::seconds(60)});
    std::vector<std::vector<float>> memory(8, std::vector<float>(11));
    run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
      float* data = memory[static_cast<size_t>(rank)].data();
      std::unique_ptr<Collective> in_place = communicator.prepare(make_step(c, rank, data, data));
      std::fill_n(data, 11, 1.0F);
      for (int i = 0; i < 100; ++i) {
        in_place->run();
        for (int j = 0; j < 11; ++j) data[j] /= 8.0F;
      }
    });
    world.rethrow_failure();
    for (const std::vector<float>& m : memory) CHECK(m == std::vector<float>(11, 1.0F));
  }
}

}  // namespace
}  // namespace tpc

#include "runtime/initial_values.h"

#include <doctest/doctest.h>

#include <cmath>

#include "compiler/core/check.h"
#include "compiler/core/philox.h"
#include "compiler/lowering/region_copy.h"

namespace tpc {
namespace {

PlanTensor parameter(Shape shape, Attributes attributes) {
  PlanTensor tensor;
  tensor.name = "block0.fc1.weight";
  tensor.type = {DType::kF32, std::move(shape)};
  tensor.role = TensorRole::kParameter;
  tensor.attributes = std::move(attributes);
  return tensor;
}

std::vector<float> part_of(const PlanTensor& tensor, const Region& region, uint64_t seed) {
  std::vector<float> data(static_cast<size_t>(region.num_elements()), -99.0F);
  fill_initial(tensor, seed, {tensor.type, region, data.data()});
  return data;
}

const Attributes kNormal{{"init", std::string("normal")}, {"std", 0.02}};
const Attributes kUniform{{"init", std::string("uniform")}, {"bound", 0.25}};

TEST_CASE("initial values are the same bits for every mesh") {
  const Shape shape{7, 9, 5};
  for (const Attributes& attributes : {kNormal, kUniform}) {
    PlanTensor tensor = parameter(shape, attributes);
    std::vector<float> whole = part_of(tensor, whole_region(shape), 11);
    std::vector<std::pair<DeviceMesh, TensorSharding>> layouts;
    for (int64_t n : {2, 3, 4, 5}) {
      for (int64_t d : {0, 1, 2}) layouts.push_back({DeviceMesh({{"tp", n}}), {{Placement::shard(d)}}});
    }
    layouts.push_back({DeviceMesh({{"dp", 2}, {"tp", 3}}), {{Placement::shard(1), Placement::shard(1)}}});
    layouts.push_back({DeviceMesh({{"dp", 2}, {"tp", 3}}), {{Placement::shard(2), Placement::shard(0)}}});
    for (const auto& [mesh, sharding] : layouts) {
      std::vector<float> together(whole.size());
      for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
        Region region = local_region(shape, sharding, mesh, mesh.coordinate(rank));
        std::vector<float> part = part_of(tensor, region, 11);
        RegionCopy(region, whole_region(shape)).run(part.data(), together.data());
      }
      CHECK(together == whole);
    }
  }
}

TEST_CASE("initial values follow the written formula") {
  PlanTensor normal = parameter({333}, kNormal), uniform = parameter({333}, kUniform);
  PhiloxKey key = philox_key(4, "block0.fc1.weight");
  std::vector<float> normals = part_of(normal, whole_region({333}), 4);
  std::vector<float> uniforms = part_of(uniform, whole_region({333}), 4);
  for (uint64_t i = 0; i < 333; ++i) {
    CHECK(normals[i] == static_cast<float>(0.02 * random_normal(key, 0, i)));
    CHECK(uniforms[i] == static_cast<float>(0.25 * (2 * uniform_from_word(random_word(key, 0, i)) - 1)));
  }
}

TEST_CASE("initial values have the wanted mean and deviation, and depend on seed and name") {
  PlanTensor tensor = parameter({20000}, kNormal);
  std::vector<float> values = part_of(tensor, whole_region({20000}), 0);
  double sum = 0, squares = 0;
  for (float v : values) {
    sum += v;
    squares += double{v} * v;
  }
  CHECK(std::abs(sum / 20000) < 0.0006);
  CHECK(std::sqrt(squares / 20000) == doctest::Approx(0.02).epsilon(0.03));
  CHECK(part_of(tensor, whole_region({20000}), 1) != values);
  tensor.name = "block1.fc1.weight";
  CHECK(part_of(tensor, whole_region({20000}), 0) != values);
}

TEST_CASE("constant initial values") {
  auto first = [](Attributes attributes) {
    return part_of(parameter({3}, std::move(attributes)), whole_region({3}), 0)[2];
  };
  CHECK(first({}) == 0.0F);
  CHECK(first({{"init", std::string("zeros")}}) == 0.0F);
  CHECK(first({{"init", std::string("ones")}}) == 1.0F);
  CHECK(first({{"init", std::string("constant")}, {"value", 2.5}}) == 2.5F);
  CHECK_THROWS_AS(first({{"init", std::string("guess")}}), InternalError);
}

}  // namespace
}  // namespace tpc

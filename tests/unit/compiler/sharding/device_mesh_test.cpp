#include "compiler/sharding/device_mesh.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace tpc {
namespace {

const std::vector<std::string> kMeshes{"[]", "[tp=1]", "[tp=5]", "[dp=2, tp=4]", "[dp=2, tp.0=3, tp.1=2]"};

DeviceMesh mesh_of(const std::string& text) { return parse_mesh(text).value(); }

std::vector<std::vector<int64_t>> subsets_of_axes(const DeviceMesh& mesh) {
  std::vector<std::vector<int64_t>> subsets{{}};
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    size_t count = subsets.size();
    for (size_t i = 0; i < count; ++i) {
      subsets.push_back(subsets[i]);
      subsets.back().push_back(static_cast<int64_t>(axis));
    }
  }
  return subsets;
}

TEST_CASE("device_mesh: the last axis varies fastest") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=4]");
  CHECK(mesh.world_size() == 8);
  CHECK(mesh.coordinate(6) == std::vector<int64_t>{1, 2});
  CHECK(mesh.rank_at(std::vector<int64_t>{1, 2}) == 6);
}

TEST_CASE("device_mesh: rank to coordinate and back") {
  for (const std::string& text : kMeshes) {
    DeviceMesh mesh = mesh_of(text);
    for (int64_t rank = 0; rank < mesh.world_size(); ++rank) CHECK(mesh.rank_at(mesh.coordinate(rank)) == rank);
  }
  CHECK(DeviceMesh().world_size() == 1);
}

TEST_CASE("device_mesh: groups") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=4]");
  CHECK(mesh.group(std::vector<int64_t>{1}, 6) == std::vector<int64_t>{4, 5, 6, 7});
  CHECK(mesh.group(std::vector<int64_t>{0}, 6) == std::vector<int64_t>{2, 6});
  CHECK(mesh.group(std::vector<int64_t>{0, 1}, 6) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(mesh.group(std::vector<int64_t>{}, 6) == std::vector<int64_t>{6});
}

// Key and value heads on 8 of 16 ranks each, twice: gradients of their weights are reduced in neighbouring pairs.
TEST_CASE("device_mesh: a sub-axis groups neighbours") {
  DeviceMesh mesh = mesh_of("[tp.0=8, tp.1=2]");
  for (int64_t rank = 0; rank < 16; ++rank) {
    CHECK(mesh.group(std::vector<int64_t>{1}, rank) == std::vector<int64_t>{rank / 2 * 2, rank / 2 * 2 + 1});
  }
}

TEST_CASE("device_mesh: groups of any axes part the ranks, and every rank finds its place") {
  for (const std::string& text : kMeshes) {
    DeviceMesh mesh = mesh_of(text);
    for (const std::vector<int64_t>& axes : subsets_of_axes(mesh)) {
      std::set<std::vector<int64_t>> groups;
      for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
        std::vector<int64_t> group = mesh.group(axes, rank);
        CHECK(static_cast<int64_t>(group.size()) == mesh.group_size(axes));
        CHECK(std::is_sorted(group.begin(), group.end()));
        int64_t index = mesh.index_in_group(axes, mesh.coordinate(rank));
        CHECK(group.at(static_cast<size_t>(index)) == rank);
        groups.insert(group);
      }
      CHECK(static_cast<int64_t>(groups.size()) * mesh.group_size(axes) == mesh.world_size());
    }
  }
}

TEST_CASE("device_mesh: text parses back") {
  for (const std::string& text : kMeshes) {
    CHECK(to_string(mesh_of(text)) == "mesh " + text);
  }
  CHECK(parse_mesh("dp=2,tp=4") == parse_mesh("[dp=2, tp=4]"));
  CHECK(parse_mesh("") == DeviceMesh());
}

TEST_CASE("device_mesh: malformed text") {
  for (std::string text : {"tp", "tp=", "=2", "tp=0", "tp=-1", "tp=2x", "tp=2,tp=2", "[tp=2", "tp=2,", "tp=1e3"}) {
    CAPTURE(text);
    CHECK(parse_mesh(text) == std::nullopt);
  }
}

TEST_CASE("device_mesh: users see one axis where the compiler made sub-axes") {
  DeviceMesh mesh = mesh_of("[dp=2, tp.0=3, tp.1=2]");
  CHECK(user_axis("tp.1") == "tp");
  CHECK(user_axis("tp") == "tp");
  CHECK(axes_name(mesh, std::vector<int64_t>{0}) == "dp");
  CHECK(axes_name(mesh, std::vector<int64_t>{2}) == "tp.1");
  CHECK(axes_name(mesh, std::vector<int64_t>{1, 2}) == "tp");
  CHECK(axes_name(mesh, std::vector<int64_t>{0, 1}) == "dp+tp.0");
  CHECK(axes_name(mesh, std::vector<int64_t>{0, 1, 2}) == "dp+tp");
}

}  // namespace
}  // namespace tpc

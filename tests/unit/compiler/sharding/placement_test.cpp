#include "compiler/sharding/placement.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace tpc {
namespace {

DeviceMesh mesh_of(const std::string& text) { return parse_mesh(text).value(); }
TensorSharding sharding_of(const std::string& text) { return parse_sharding(text).value(); }

std::vector<int64_t> block_sizes(int64_t size, int64_t unit, int64_t parts) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(balanced_block(size, unit, parts, i).size());
  return sizes;
}

std::vector<Region> regions(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh) {
  std::vector<Region> result;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    result.push_back(local_region(shape, sharding, mesh, mesh.coordinate(rank)));
  }
  return result;
}

std::vector<Interval> first_dim(const Shape& shape, const std::string& sharding, const std::string& mesh) {
  std::vector<Interval> result;
  for (const Region& region : regions(shape, sharding_of(sharding), mesh_of(mesh))) result.push_back(region.dims[0]);
  return result;
}

TEST_CASE("placement: balanced blocks") {
  CHECK(block_sizes(8, 1, 3) == std::vector<int64_t>{3, 3, 2});
  CHECK(balanced_block(8, 1, 3, 1) == Interval{3, 6});
  CHECK(balanced_block(8, 1, 3, 2) == Interval{6, 8});
  CHECK(block_sizes(25, 1, 4) == std::vector<int64_t>{7, 6, 6, 6});
  CHECK(block_sizes(25, 1, 8) == std::vector<int64_t>{4, 3, 3, 3, 3, 3, 3, 3});
  CHECK(block_sizes(257, 1, 2) == std::vector<int64_t>{129, 128});
  CHECK(block_sizes(32, 4, 3) == std::vector<int64_t>{12, 12, 8});
  CHECK(balanced_block(32, 4, 3, 2) == Interval{24, 32});
}

TEST_CASE("placement: blocks follow each other, cover the dimension and differ by one unit at most") {
  for (int64_t unit : {1, 3}) {
    for (int64_t units = 1; units <= 20; ++units) {
      for (int64_t parts = 1; parts <= 7; ++parts) {
        int64_t end = 0;
        for (int64_t i = 0; i < parts; ++i) {
          Interval block = balanced_block(units * unit, unit, parts, i);
          CHECK(block.begin == end);
          end = block.end;
        }
        CHECK(end == units * unit);
        std::vector<int64_t> sizes = block_sizes(units * unit, unit, parts);
        CHECK(sizes.front() - sizes.back() <= unit);
        CHECK(std::is_sorted(sizes.rbegin(), sizes.rend()));
      }
    }
  }
}

TEST_CASE("placement: two axes split one dimension left to right") {
  CHECK(first_dim({10}, "[S(0), S(0)]", "[dp=2, tp=2]") == std::vector<Interval>{{0, 3}, {3, 5}, {5, 8}, {8, 10}});
  CHECK(first_dim({8}, "[S(0), S(0)]", "[dp=2, tp=2]") == std::vector<Interval>{{0, 2}, {2, 4}, {4, 6}, {6, 8}});
}

TEST_CASE("placement: replicated and partial axes hold dimensions whole") {
  Shape shape{4, 6};
  DeviceMesh mesh = mesh_of("[dp=2, tp=3]");
  for (const Region& region : regions(shape, sharding_of("[P(sum), R]"), mesh)) CHECK(region == whole_region(shape));
  Region region = local_region(shape, sharding_of("[P(sum), S(1)]"), mesh, std::vector<int64_t>{1, 2});
  CHECK(region == Region{{{0, 4}, {4, 6}}});
  CHECK(region.extents() == Shape{4, 2});
  CHECK(region.num_elements() == 8);
}

// 8 query heads with 2 kv groups on 3 ranks: the groups cannot be split three ways, the heads can.
TEST_CASE("placement: heads on more ranks than groups") {
  CHECK(first_dim({8}, "[S(0)]", "[tp=3]") == std::vector<Interval>{{0, 3}, {3, 6}, {6, 8}});
  CHECK(why_illegal({8}, sharding_of("[S(0:4)]"), mesh_of("[tp=3]")).has_value());
  CHECK(first_dim({32}, "[S(0:4)]", "[tp=3]") == std::vector<Interval>{{0, 12}, {12, 24}, {24, 32}});
}

TEST_CASE("placement: the fullest rank is the first") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=3]");
  for (std::string text : {"[R, R]", "[S(0), S(1)]", "[S(0), S(0)]", "[S(1:2), P(sum)]", "[P(max), S(0)]"}) {
    CAPTURE(text);
    Shape shape{7, 10};
    Shape fullest = fullest_shape(shape, sharding_of(text), mesh);
    Shape most(shape.size(), 0);
    for (const Region& region : regions(shape, sharding_of(text), mesh)) {
      for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], region.dims[i].size());
    }
    CHECK(fullest == most);
  }
}

TEST_CASE("placement: text parses back") {
  for (std::string text : {"[]", "[R]", "[S(0), R]", "[S(2:4), P(sum)]", "[P(max), S(1), S(1)]"}) {
    CHECK(to_string(sharding_of(text)) == text);
  }
  CHECK(parse_placement("P") == Placement::partial());
  CHECK(parse_placement(" S( 2 : 4 ) ") == Placement::shard(2, 4));
}

TEST_CASE("placement: malformed text") {
  for (std::string text : {"", "r", "S", "S()", "S(-1)", "S(0:0)", "S(x)", "S(64)", "P(avg)", "R R"}) {
    CAPTURE(text);
    CHECK(parse_placement(text) == std::nullopt);
  }
  for (std::string text : {"", "R", "[R", "R]", "[R,]", "[,R]", "[R R]"}) {
    CAPTURE(text);
    CHECK(parse_sharding(text) == std::nullopt);
  }
}

TEST_CASE("placement: predicates") {
  CHECK(sharding_of("[R, R]").is_replicated());
  CHECK(TensorSharding().is_replicated());
  CHECK_FALSE(sharding_of("[R, S(0)]").is_replicated());
  CHECK(sharding_of("[S(0), P(sum)]").has_partial());
  CHECK_FALSE(sharding_of("[S(0), R]").has_partial());
  CHECK(TensorSharding::replicated(mesh_of("[dp=2, tp=2]")) == sharding_of("[R, R]"));
}

TEST_CASE("placement: illegal shardings say why") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=4]");
  auto why = [&](const Shape& shape, const char* sharding) {
    return why_illegal(shape, sharding_of(sharding), mesh).value_or("legal");
  };
  CHECK(why({8, 8}, "[S(0), S(1)]") == "legal");
  CHECK(why({8}, "[S(0), S(0)]") == "legal");
  CHECK(why({2, 8}, "[S(0), P(sum)]") == "legal");
  CHECK(why({3, 8}, "[R, S(0)]") == "axis \"tp\" (size 4) does not split dimension 0 (size 3)");
  CHECK(why({7, 8}, "[S(0), S(0)]") == "axis \"tp\" (size 4) does not split dimension 0 (size 7)");
  CHECK(why({12, 8}, "[R, S(0:4)]") == "axis \"tp\" (size 4) does not split dimension 0 (size 12, 3 units of 4)");
  CHECK(why({8, 8}, "[R, S(2)]") == "S(2) names dimension 2, the tensor has 2");
  CHECK(why({8, 8}, "[R, S(0:3)]") == "dimension 0 (size 8) is not whole units of 3");
  CHECK(why({10, 8}, "[S(0), S(0:2)]") == "blocks of dimension 0 left by the outer axes are not whole units of 2");
  CHECK(why({8, 8}, "[R]") == "[R] has 1 placements, the mesh has 2 axes");
}

TEST_CASE("placement: a legal sharding gives every rank something, an illegal split leaves one empty") {
  DeviceMesh mesh = mesh_of("[dp=2, tp=3]");
  for (int64_t size = 1; size <= 14; ++size) {
    for (std::string text : {"[S(0), R]", "[R, S(0)]", "[S(0), S(0)]"}) {
      CAPTURE(size);
      CAPTURE(text);
      bool all_hold = true;
      for (const Region& region : regions({size}, sharding_of(text), mesh)) all_hold &= region.num_elements() > 0;
      CHECK(all_hold == !why_illegal({size}, sharding_of(text), mesh));
    }
  }
}

TEST_CASE("placement: canonical drops units that change nothing") {
  auto canonical_text = [](const Shape& shape, const char* sharding, const char* mesh) {
    return to_string(canonical(shape, sharding_of(sharding), mesh_of(mesh)));
  };
  CHECK(canonical_text({1, 1, 32}, "[S(2:4)]", "[tp=4]") == "[S(2)]");
  CHECK(canonical_text({1, 1, 32}, "[S(2:4)]", "[tp=3]") == "[S(2:4)]");
  CHECK(canonical_text({16}, "[S(0:2), S(0)]", "[tp.0=8, tp.1=2]") == "[S(0), S(0)]");
  CHECK(canonical_text({32}, "[S(0:4), S(0:4)]", "[dp=3, tp=2]") == "[S(0:4), S(0:4)]");
}

TEST_CASE("placement: canonical keeps every region and is idempotent") {
  for (std::string mesh_text : {"[tp=2]", "[tp=3]", "[dp=2, tp=2]", "[dp=2, tp=3]"}) {
    DeviceMesh mesh = mesh_of(mesh_text);
    for (int64_t size : {12, 24, 32, 40}) {
      for (int64_t outer : {1, 2, 4}) {
        for (int64_t inner : {1, 2, 4}) {
          TensorSharding sharding{{Placement::shard(0, outer), Placement::shard(0, inner)}};
          sharding.placements.resize(mesh.num_axes());
          if (why_illegal({size}, sharding, mesh)) continue;
          TensorSharding found = canonical({size}, sharding, mesh);
          CAPTURE(to_string(sharding));
          CHECK(regions({size}, found, mesh) == regions({size}, sharding, mesh));
          CHECK(canonical({size}, found, mesh) == found);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tpc

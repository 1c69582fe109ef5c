#include "compiler/lowering/region_copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace tpc {
namespace {

Region region(std::vector<Interval> dims) { return {std::move(dims)}; }

int64_t num_runs(const RegionCopy& copy) {
  int64_t runs = 0;
  copy.for_each_run([&](int64_t, int64_t, int64_t) { ++runs; });
  return runs;
}

// Every element that both regions hold goes to its own place, the others stay.
void check_copy(const Region& source, const Region& destination, const Shape& whole) {
  Shape strides = row_major_strides(whole);
  auto global_indices = [&](const Region& part) {
    std::vector<int32_t> indices{0};
    for (size_t d = 0; d < whole.size(); ++d) {
      std::vector<int32_t> longer;
      for (int32_t base : indices) {
        for (int64_t i = part.dims[d].begin; i < part.dims[d].end; ++i) {
          longer.push_back(base + static_cast<int32_t>(i * strides[d]));
        }
      }
      indices = longer;
    }
    return indices;
  };
  std::vector<int32_t> from = global_indices(source), wanted = global_indices(destination);
  std::vector<int32_t> to(wanted.size(), -1);
  RegionCopy copy(source, destination);
  CHECK(copy.run(from.data(), to.data()) == copy.num_elements());
  int64_t copied = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    bool is_shared = std::find(from.begin(), from.end(), wanted[i]) != from.end();
    CHECK(to[i] == (is_shared ? wanted[i] : -1));
    copied += is_shared;
  }
  CHECK(copied == copy.num_elements());
}

TEST_CASE("a region copy moves exactly the shared elements") {
  const Shape whole{4, 5, 3};
  std::vector<Region> regions;
  for (Interval a : {Interval{0, 4}, Interval{0, 2}, Interval{1, 3}, Interval{3, 4}}) {
    for (Interval b : {Interval{0, 5}, Interval{2, 5}, Interval{1, 2}}) {
      for (Interval c : {Interval{0, 3}, Interval{1, 3}, Interval{2, 3}}) regions.push_back(region({a, b, c}));
    }
  }
  for (const Region& source : regions) {
    for (const Region& destination : regions) check_copy(source, destination, whole);
  }
}

TEST_CASE("a region copy merges what is contiguous") {
  Region whole = whole_region({8, 6, 4});
  CHECK(num_runs(RegionCopy(whole, whole)) == 1);
  CHECK(num_runs(RegionCopy(whole, region({{2, 5}, {0, 6}, {0, 4}}))) == 1);
  CHECK(num_runs(RegionCopy(whole, region({{0, 8}, {0, 3}, {0, 4}}))) == 8);
  CHECK(num_runs(RegionCopy(whole, region({{0, 1}, {0, 1}, {1, 2}}))) == 1);
}

TEST_CASE("a region copy of a scalar, and of nothing") {
  check_copy({}, {}, {});
  Region left = region({{0, 2}}), right = region({{2, 4}});
  CHECK(RegionCopy(left, right).num_elements() == 0);
  CHECK(num_runs(RegionCopy(left, right)) == 0);
}

}  // namespace
}  // namespace tpc

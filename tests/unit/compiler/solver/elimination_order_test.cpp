#include "passes/solver/elimination_order.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <tuple>

#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// The definition, literally.
EliminationOrder naive_order(const CostNetwork& network) {
  auto count = static_cast<size_t>(network.num_variables());
  std::vector<std::set<size_t>> neighbours(count);
  std::set<size_t> left;
  auto labels = [&](size_t v) { return network.num_labels(static_cast<int>(v)); };
  for (size_t v = 0; v < count; ++v) {
    if (labels(v) > 1) left.insert(v);
  }
  auto connect = [&](size_t a, size_t b) {
    if (a != b && left.contains(a) && left.contains(b)) neighbours[a].insert(b);
  };
  for (const CostNetwork::Factor& factor : network.factors()) {
    for (int a : factor.scope) {
      for (int b : factor.scope) connect(static_cast<size_t>(a), static_cast<size_t>(b));
    }
  }
  EliminationOrder order;
  while (!left.empty()) {
    std::tuple<int64_t, size_t, size_t> best{kNoLimit, 0, 0};
    for (size_t v : left) {
      int64_t entries = labels(v);
      for (size_t u : neighbours[v]) entries *= labels(u);
      best = std::min(best, std::tuple(entries, neighbours[v].size(), v));
    }
    auto [entries, degree, v] = best;
    order.variables.push_back(static_cast<int>(v));
    order.width = std::max(order.width, static_cast<int>(degree));
    order.largest_bucket = std::max(order.largest_bucket, entries);
    left.erase(v);
    for (size_t a : neighbours[v]) {
      neighbours[a].erase(v);
      for (size_t b : neighbours[v]) connect(a, b);
    }
  }
  return order;
}

void check_order(const CostNetwork& network) {
  EliminationOrder expected = naive_order(network);
  EliminationOrder order = elimination_order(network, kNoLimit);
  CHECK(order.variables == expected.variables);
  CHECK(order.width == expected.width);
  CHECK(order.largest_bucket == expected.largest_bucket);
}

TEST_CASE("elimination order: always the smallest bucket") {
  std::mt19937_64 random(31);
  for (int i = 0; i < 100; ++i) check_order(random_network(random, 30));
  for (int i = 0; i < 20; ++i) check_order(random_layers(random, 10, i % 3));
}

TEST_CASE("elimination order: stops after a bucket above the limit") {
  CostNetwork network;
  for (int v = 0; v < 3; ++v) network.add_variable(4);
  network.add_factor({0, 1}, network.add_table({4, 4}, std::vector<Cost>(16, 0)));
  CHECK(elimination_order(network, 16).variables == std::vector{2, 0, 1});
  EliminationOrder cut = elimination_order(network, 15);
  CHECK(cut.variables == std::vector{2, 0});
  CHECK(cut.largest_bucket == 16);
}

}  // namespace
}  // namespace tpc

#include "passes/solver/min_marginals.h"

#include <doctest/doctest.h>

#include "compiler/core/check.h"
#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

/// By elimination of the network without the other labels.
std::vector<Cost> one_by_one(const CostNetwork& network, int variable) {
  std::vector<Cost> costs;
  for (int label = 0; label < network.num_labels(variable); ++label) {
    std::vector<Cost> only(static_cast<size_t>(network.num_labels(variable)), kInfeasible);
    only[static_cast<size_t>(label)] = 0;
    CostNetwork restricted = network;
    restricted.add_factor({variable}, restricted.add_table({network.num_labels(variable)}, only));
    costs.push_back(solve(restricted).cost);
  }
  return costs;
}

TEST_CASE("min marginals: the cheapest of all assignments with each label") {
  std::mt19937_64 random(51);
  for (int i = 0; i < 400; ++i) {
    CostNetwork network = random_network(random, 6);
    CAPTURE(describe(network));
    int variable = pick(random, 0, network.num_variables() - 1);
    std::vector<Cost> expected = marginals_by_enumeration(network, variable);
    CHECK(min_marginals(network, variable) == expected);
    CHECK(min_marginals(network, variable, {.reuse_buckets = false, .last_variable = 0}) == expected);
  }
}

TEST_CASE("min marginals: layers") {
  std::mt19937_64 random(52);
  for (int i = 0; i < 20; ++i) {
    CostNetwork network = random_layers(random, 15, i % 3);
    int variable = pick(random, 0, network.num_variables() - 1);
    CHECK(min_marginals(network, variable) == one_by_one(network, variable));
  }
}

TEST_CASE("min marginals: special cases") {
  CostNetwork network;
  int a = network.add_variable(2);
  int b = network.add_variable(1);
  CHECK(min_marginals(network, a) == std::vector<Cost>{0, 0});
  network.add_factor({}, network.add_table({}, {7}));
  network.add_factor({b, a}, network.add_table({1, 2}, {kInfeasible, 3}));
  CHECK(min_marginals(network, a) == std::vector<Cost>{kInfeasible, 10});
  CHECK(min_marginals(network, b) == std::vector<Cost>{10});
  CHECK(min_marginals(network, a, {.max_entries = 1}).empty());
  network.add_factor({a}, network.add_table({2}, {0, kInfeasible - 10}));
  CHECK(min_marginals(network, a) == std::vector<Cost>{kInfeasible, kInfeasible});
  CHECK_THROWS_AS(min_marginals(network, 2), InternalError);
}

}  // namespace
}  // namespace tpc

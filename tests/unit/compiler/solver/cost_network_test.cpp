#include "passes/solver/cost_network.h"

#include <doctest/doctest.h>

#include "compiler/core/check.h"

namespace tpc {
namespace {

TEST_CASE("cost: text") {
  CHECK(to_string(0) == "0");
  CHECK(to_string(-120) == "-120");
  CHECK(to_string(Cost{1} << 64) == "18446744073709551616");
  CHECK(to_string(kInfeasible) == "infeasible");
  Cost least = Cost{1} << 126;
  least = -least - least;
  CHECK(to_string(least) == "-170141183460469231731687303715884105728");
}

TEST_CASE("cost: sums stop at infeasible") {
  CHECK(add_costs(2, 3) == Cost{5});
  CHECK(add_costs(kInfeasible, -1) == kInfeasible);
  CHECK(add_costs(-1, kInfeasible) == kInfeasible);
  CHECK(add_costs(kInfeasible, kInfeasible) == kInfeasible);
  CHECK(add_costs(kInfeasible - 1, 1) == kInfeasible);
  CHECK(add_costs(kInfeasible - 2, 1) == kInfeasible - 1);
}

TEST_CASE("cost network: equal tables are kept once") {
  CostNetwork network;
  int a = network.add_table({2, 3}, {0, 1, 2, 3, 4, 5});
  int b = network.add_table({3, 2}, {0, 1, 2, 3, 4, 5});
  CHECK(a != b);
  CHECK(network.add_table({2, 3}, {0, 1, 2, 3, 4, 5}) == a);
  CHECK(network.add_table({2, 3}, {0, 1, 2, 3, 4, Cost{5} << 64}) != a);
  CHECK(network.tables().size() == 3);
}

TEST_CASE("cost network: the cost of an assignment") {
  CostNetwork network;
  int a = network.add_variable(2);
  int b = network.add_variable(3);
  network.add_factor({a, b}, network.add_table({2, 3}, {0, 1, 2, 10, 11, kInfeasible}));
  network.add_factor({b, a}, network.add_table({3, 2}, {0, 100, 200, 300, 400, 500}));
  network.add_factor({}, network.add_table({}, {7000}));
  CHECK(network.cost(std::vector{0, 2}) == Cost{7402});
  CHECK(network.cost(std::vector{1, 1}) == Cost{7311});
  CHECK(network.cost(std::vector{1, 2}) == kInfeasible);
}

TEST_CASE("cost network: what does not fit is refused") {
  CostNetwork network;
  int a = network.add_variable(2);
  int b = network.add_variable(3);
  int table = network.add_table({2, 3}, {0, 1, 2, 3, 4, 5});
  CHECK_THROWS_AS(network.add_variable(0), InternalError);
  CHECK_THROWS_AS(network.add_variable(65536), InternalError);
  CHECK_THROWS_AS(network.add_table({2, 3}, {0, 1, 2}), InternalError);
  CHECK_THROWS_AS(network.add_table({0}, {}), InternalError);
  CHECK_THROWS_AS(network.add_table({1}, {-1}), InternalError);
  CHECK_THROWS_AS(network.add_table({1}, {kInfeasible + 1}), InternalError);
  CHECK_THROWS_AS(network.add_factor({b, a}, table), InternalError);
  CHECK_THROWS_AS(network.add_factor({a}, table), InternalError);
  CHECK_THROWS_AS(network.add_factor({a, 2}, table), InternalError);
  CHECK_THROWS_AS(network.add_factor({a, b}, 1), InternalError);
  int square = network.add_table({2, 2}, {0, 1, 2, 3});
  CHECK_THROWS_AS(network.add_factor({a, a}, square), InternalError);
  CHECK_THROWS_AS(network.add_factor(std::vector<int>(7, a), table), InternalError);
  CHECK_THROWS_AS(network.cost(std::vector{0}), InternalError);
  CHECK_THROWS_AS(network.cost(std::vector{0, 3}), InternalError);
}

}  // namespace
}  // namespace tpc

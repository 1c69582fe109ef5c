#include "passes/solver/elimination.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

constexpr SolveOptions kAnew{.reuse_buckets = false};

void check_same(const Solution& a, const Solution& b) {
  CHECK(a.status == b.status);
  CHECK(a.cost == b.cost);
  CHECK(a.assignment == b.assignment);
  CHECK(a.certificate == b.certificate);
}

/// The properties of every solution, whatever the network.
Solution checked_solution(const CostNetwork& network) {
  Solution solution = solve(network);
  check_same(solution, solve(network));
  check_same(solution, solve(network, kAnew));
  REQUIRE(solution.status != SolveStatus::kTooLarge);
  if (solution.status == SolveStatus::kOptimal) {
    CHECK(refute(solution.certificate, network, solution.assignment).value_or("accepted") == "accepted");
    CHECK(network.cost(solution.assignment) == solution.cost);
  } else {
    CHECK(solution.cost == kInfeasible);
    CHECK(solution.assignment.empty());
    CHECK(solution.certificate == Certificate{});
  }
  return solution;
}

TEST_CASE("elimination: as cheap as the best of all assignments") {
  std::mt19937_64 random(1);
  int feasible = 0;
  int infeasible = 0;
  for (int i = 0; i < 600; ++i) {
    CostNetwork network = random_network(random, 8);
    CAPTURE(describe(network));
    Solution solution = checked_solution(network);
    CHECK(solution.cost == enumerate_assignments(network).first);
    ++(solution.status == SolveStatus::kOptimal ? feasible : infeasible);
  }
  CHECK(feasible >= 300);
  CHECK(infeasible >= 50);
}

TEST_CASE("elimination: layers that repeat are solved as if each was computed anew") {
  std::mt19937_64 random(2);
  int feasible = 0;
  int buckets = 0;
  int distinct = 0;
  for (int i = 0; i < 40; ++i) {
    CostNetwork network = random_layers(random, 40, i % 3);
    Solution solution = checked_solution(network);
    if (solution.status != SolveStatus::kOptimal) continue;
    ++feasible;
    CHECK(solve(network, kAnew).statistics.distinct_buckets == solution.statistics.buckets);
    buckets += solution.statistics.buckets;
    distinct += solution.statistics.distinct_buckets;
  }
  CHECK(feasible >= 20);
  CHECK(distinct < buckets / 2);
}

TEST_CASE("elimination: more layers of a kind are no more buckets to compute") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    Solution few = solve(random_layers(random, 40, 0));
    random.seed(seed);
    Solution many = solve(random_layers(random, 80, 0));
    CHECK(few.status == many.status);
    CHECK(few.statistics.distinct_buckets == many.statistics.distinct_buckets);
    if (many.status == SolveStatus::kOptimal) CHECK(many.statistics.buckets >= few.statistics.buckets * 19 / 10);
  }
}

TEST_CASE("elimination: few layers, against all assignments") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 12; ++i) {
    CostNetwork network = random_layers(random, 1, 2);
    CHECK(checked_solution(network).cost == enumerate_assignments(network).first);
  }
}

TEST_CASE("elimination: no variables") {
  CostNetwork network;
  Solution empty = checked_solution(network);
  CHECK(empty.status == SolveStatus::kOptimal);
  CHECK(empty.cost == Cost{0});
  network.add_factor({}, network.add_table({}, {5}));
  network.add_factor({}, network.add_table({}, {6}));
  CHECK(checked_solution(network).cost == Cost{11});
  network.add_factor({}, network.add_table({}, {kInfeasible}));
  CHECK(checked_solution(network).status == SolveStatus::kInfeasible);
}

TEST_CASE("elimination: a variable in no factor gets its first label") {
  CostNetwork network;
  network.add_variable(3);
  int b = network.add_variable(2);
  network.add_variable(4);
  network.add_factor({b}, network.add_table({2}, {9, 4}));
  Solution solution = checked_solution(network);
  CHECK(solution.assignment == std::vector{0, 1, 0});
  CHECK(solution.statistics.buckets == 1);
  CHECK(solution.statistics.width == 0);
}

TEST_CASE("elimination: the lowest label wins ties") {
  CostNetwork network;
  int a = network.add_variable(3);
  network.add_factor({a}, network.add_table({3}, {5, 2, 2}));
  CHECK(checked_solution(network).assignment == std::vector{1});
}

TEST_CASE("elimination: variables of one label cost nothing") {
  CostNetwork network;
  int hub = network.add_variable(1);
  std::vector<int> spokes;
  for (int i = 0; i < 50; ++i) {
    spokes.push_back(network.add_variable(3));
    network.add_factor({hub, spokes.back()}, network.add_table({1, 3}, {4, 3, kInfeasible}));
    network.add_factor({spokes.back(), hub}, network.add_table({3, 1}, {0, 0, 1}));
  }
  network.add_factor({hub}, network.add_table({1}, {1000}));
  Solution solution = checked_solution(network);
  CHECK(solution.cost == Cost{1150});
  CHECK(solution.statistics.width == 0);
  CHECK(solution.statistics.largest_bucket == 3);
  network.add_factor({hub}, network.add_table({1}, {kInfeasible}));
  CHECK(checked_solution(network).status == SolveStatus::kInfeasible);
}

TEST_CASE("elimination: a variable with many factors") {
  CostNetwork network;
  int a = network.add_variable(3);
  int b = network.add_variable(2);
  for (int i = 0; i < 1000; ++i) {
    network.add_factor({a}, network.add_table({3}, {Cost{i}, 500, kInfeasible}));
    network.add_factor({a, b}, network.add_table({3, 2}, {1, 3, 1, 2, 0, 0}));
    network.add_factor({b, a}, network.add_table({2, 3}, {2, 2, 2, 1, 0, 2}));
  }
  CHECK(checked_solution(network).cost == Cost{499500 + 3000 - 1000 + 500});
}

TEST_CASE("elimination: sums that reach kInfeasible are infeasible") {
  CostNetwork network;
  int a = network.add_variable(2);
  int b = network.add_variable(2);
  Cost half = kInfeasible / 2;
  network.add_factor({a}, network.add_table({2}, {half, half - 1}));
  network.add_factor({b}, network.add_table({2}, {half, half}));
  Solution solution = checked_solution(network);
  CHECK(solution.cost == kInfeasible - 1);
  CHECK(solution.assignment == std::vector{1, 0});
  network.add_factor({a, b}, network.add_table({2, 2}, {0, 0, 1, 1}));
  CHECK(checked_solution(network).status == SolveStatus::kInfeasible);
  for (int i = 0; i < 300; ++i) network.add_factor({a}, network.add_table({2}, {kInfeasible - 1, kInfeasible}));
  CHECK(checked_solution(network).status == SolveStatus::kInfeasible);
}

TEST_CASE("elimination: many huge entries on the way to a feasible optimum") {
  CostNetwork network;
  int b = network.add_variable(2);
  int a = network.add_variable(3);
  for (int i = 0; i < 300; ++i) {
    network.add_factor({a, b}, network.add_table({3, 2}, {kInfeasible - 1, kInfeasible - 1 - i, 0, 1, kInfeasible, 2}));
  }
  Solution solution = checked_solution(network);
  CHECK(solution.cost == Cost{0});
  CHECK(solution.assignment == std::vector{0, 1});
}

TEST_CASE("elimination: more than 128 infeasible tables in one bucket") {
  constexpr unsigned kVariables = 9;
  CostNetwork network;
  for (unsigned v = 0; v < kVariables; ++v) network.add_variable(2);
  for (unsigned members = 0; members < 1U << kVariables; ++members) {
    std::vector<int> scope;
    for (unsigned v = 0; v < kVariables; ++v) {
      if ((members >> v & 1U) != 0) scope.push_back(static_cast<int>(v));
    }
    if (scope.empty() || scope.size() > 5) continue;
    std::vector<Cost> entries(size_t{1} << scope.size(), 1);
    entries.front() = scope.size() == 1 ? 2 : 0;
    entries.back() = kInfeasible;
    network.add_factor(scope, network.add_table(std::vector<int>(scope.size(), 2), entries));
    if (scope.size() == 1) network.add_factor(scope, network.add_table({2}, {0, kInfeasible - 1}));
  }
  Solution solution = checked_solution(network);
  CHECK(solution.cost == Cost{2 * kVariables});
  CHECK(solution.assignment == std::vector<int>(kVariables, 0));
}

CostNetwork clique(int num_variables, int num_labels) {
  CostNetwork network;
  for (int v = 0; v < num_variables; ++v) network.add_variable(num_labels);
  auto n = static_cast<size_t>(num_labels);
  std::vector<Cost> entries(n * n);
  for (size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<Cost>(i * 7 % 5);
  int table = network.add_table({num_labels, num_labels}, entries);
  for (int a = 0; a < num_variables; ++a) {
    for (int b = a + 1; b < num_variables; ++b) network.add_factor({a, b}, table);
  }
  return network;
}

TEST_CASE("elimination: a bucket above the limit is not tried") {
  CostNetwork network = clique(5, 4);
  Solution solution = solve(network, {.max_entries = 1024});
  CHECK(solution.status == SolveStatus::kOptimal);
  CHECK(solution.statistics.width == 4);
  CHECK(solution.statistics.largest_bucket == 1024);
  solution = solve(network, {.max_entries = 1023});
  CHECK(solution.status == SolveStatus::kTooLarge);
  CHECK(solution.cost == kInfeasible);
  CHECK(solution.assignment.empty());
  CHECK(solution.statistics.largest_bucket == 1024);
  // 200^12 combinations do not fit 64 bits.
  solution = solve(clique(12, 200));
  CHECK(solution.status == SolveStatus::kTooLarge);
  CHECK(solution.statistics.largest_bucket == std::numeric_limits<int64_t>::max());
}

TEST_CASE("elimination: a chain of tens of thousands of variables") {
  CostNetwork network;
  int table = network.add_table({2, 2}, {3, 1, 2, 4});
  network.add_variable(2);
  for (int v = 1; v < 20000; ++v) {
    network.add_variable(2);
    network.add_factor({v - 1, v}, table);
  }
  Solution solution = solve(network);
  CHECK(solution.cost == Cost{10000 + 2 * 9999});
  CHECK(solution.statistics.distinct_buckets < 100);
  CHECK_FALSE(refute(solution.certificate, network, solution.assignment));
}

}  // namespace
}  // namespace tpc

#include "passes/solver/pruned_elimination.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

std::string verdict(const Solution& solution, const CostNetwork& network) {
  return refute(solution.certificate, network, solution.assignment).value_or("accepted");
}

/// Solved twice and with proof; false when it was too large, or only bounded: then from both sides.
bool check_solution(const CostNetwork& network, Cost expected, const SolveOptions& options) {
  Solution solution = solve_by_bounds(network, options);
  Solution again = solve_by_bounds(network, options);
  CHECK(solution.status == again.status);
  CHECK(solution.assignment == again.assignment);
  CHECK(solution.certificate == again.certificate);
  if (solution.status == SolveStatus::kTooLarge) {
    CHECK(solution.statistics.largest_bucket > options.max_entries);
    return false;
  }
  if (solution.status == SolveStatus::kBounded) {
    CHECK(network.cost(solution.assignment) == solution.cost);
    CHECK(solution.statistics.lower_bound <= expected);
    CHECK(expected <= solution.cost);
    CHECK(solution.certificate == Certificate{});
    return false;
  }
  CHECK(solution.cost == expected);
  CHECK((solution.status == SolveStatus::kOptimal) == (expected < kInfeasible));
  if (solution.status == SolveStatus::kOptimal) {
    CHECK(network.cost(solution.assignment) == expected);
    CHECK(verdict(solution, network) == "accepted");
  } else {
    CHECK(solution.assignment.empty());
    CHECK(solution.certificate == Certificate{});
  }
  return true;
}

TEST_CASE("pruned elimination: as cheap as the best of all assignments") {
  std::mt19937_64 random(41);
  int solved[4] = {};
  int pruned = 0;
  for (int i = 0; i < 400; ++i) {
    CostNetwork network = random_network(random, 7);
    CAPTURE(describe(network));
    Cost expected = enumerate_assignments(network).first;
    const int64_t limits[] = {4, 16, 64, 1024};
    for (size_t l = 0; l < 4; ++l) {
      if (!check_solution(network, expected, {.max_entries = limits[l]})) continue;
      ++solved[l];
      Solution solution = solve_by_bounds(network, {.max_entries = limits[l]});
      if (!solution.certificate.reductions.empty()) ++pruned;
    }
  }
  CHECK(solved[0] >= 200);
  CHECK(solved[1] >= 300);
  CHECK(solved[3] >= 380);
  CHECK(pruned >= 150);
}

TEST_CASE("pruned elimination: layers cost what plain elimination says") {
  std::mt19937_64 random(42);
  int pruned = 0;
  for (int i = 0; i < 30; ++i) {
    CostNetwork network = random_layers(random, 12, i % 3);
    Cost expected = solve(network).cost;
    for (int64_t limit : {16, 64, 256}) {
      SolveOptions options{.max_entries = limit};
      if (check_solution(network, expected, options) && solve(network, options).status == SolveStatus::kTooLarge) {
        ++pruned;
      }
    }
  }
  CHECK(pruned >= 12);
}

/// Variables in a grid, costs between neighbours with many distinct values: hardly any ties.
CostNetwork grid(std::mt19937_64& random, int rows, int columns, int labels) {
  CostNetwork network;
  for (int v = 0; v < rows * columns; ++v) network.add_variable(labels);
  auto n = static_cast<size_t>(labels);
  auto table = [&](std::vector<int> sizes, size_t count, int largest) {
    std::vector<Cost> entries(count);
    for (Cost& entry : entries) entry = (Cost{pick(random, 0, largest)} << 60) + pick(random, 0, 1 << 20);
    return network.add_table(std::move(sizes), std::move(entries));
  };
  for (int v = 0; v < rows * columns; ++v) {
    network.add_factor({v}, table({labels}, n, 1000));
    if (v % columns > 0) network.add_factor({v - 1, v}, table({labels, labels}, n * n, 300));
    if (v >= columns) network.add_factor({v - columns, v}, table({labels, labels}, n * n, 300));
  }
  return network;
}

TEST_CASE("pruned elimination: grids, with and without the first elimination") {
  std::mt19937_64 random(43);
  int pruned = 0;
  for (int i = 0; i < 6; ++i) {
    CostNetwork network = grid(random, 5, 8, 4);
    Cost expected = solve(network).cost;
    for (int64_t limit : {16, 256, 1024}) {
      if (check_solution(network, expected, {.max_entries = limit})) ++pruned;
    }
  }
  CHECK(pruned >= 9);
}

TEST_CASE("pruned elimination: networks that plain elimination cannot solve") {
  std::mt19937_64 random(44);
  CostNetwork network = grid(random, 12, 12, 10);
  CHECK(solve(network).status == SolveStatus::kTooLarge);
  Solution solution = solve_exactly(network);
  REQUIRE(solution.status == SolveStatus::kOptimal);
  CHECK(verdict(solution, network) == "accepted");
  CHECK(network.cost(solution.assignment) == solution.cost);
  CHECK(solution.statistics.prunings >= 1);
  CHECK(solution.statistics.labels == 1440);
  CHECK(solution.statistics.labels_left < 1440);
  CHECK(solution.statistics.lower_bound <= solution.cost);
}

TEST_CASE("pruned elimination: what is small is solved as always") {
  std::mt19937_64 random(45);
  for (int i = 0; i < 20; ++i) {
    CostNetwork network = random_layers(random, 5, 1);
    Solution plain = solve(network);
    for (const Solution& solution : {solve_by_bounds(network), solve_exactly(network)}) {
      CHECK(solution.status == plain.status);
      CHECK(solution.assignment == plain.assignment);
      CHECK(solution.certificate == plain.certificate);
    }
  }
  CHECK(solve_by_bounds({}).cost == Cost{0});
}

TEST_CASE("pruned elimination: infeasible by a contradiction that no single factor shows") {
  CostNetwork network;
  for (int v = 0; v < 6; ++v) network.add_variable(2);
  int different = network.add_table({2, 2}, {kInfeasible, 1, 2, kInfeasible});
  for (int v = 0; v < 5; ++v) network.add_factor({v, (v + 1) % 5}, different);
  network.add_factor({5}, network.add_table({2}, {0, 1}));
  CHECK(solve_by_bounds(network, {.max_entries = 8}).status == SolveStatus::kInfeasible);
  CHECK(solve_by_bounds(network, {.max_entries = 4}).status == SolveStatus::kTooLarge);
  network.add_factor({}, network.add_table({}, {kInfeasible}));
  CHECK(solve_by_bounds(network, {.max_entries = 8}).status == SolveStatus::kInfeasible);
}

TEST_CASE("pruned elimination: a large network that stays too large") {
  std::mt19937_64 random(46);
  CostNetwork network;
  for (int v = 0; v < 30; ++v) network.add_variable(8);
  std::vector<Cost> entries(64, 1);
  for (size_t i = 0; i < 64; i += 9) entries[i] = kInfeasible;  // a colouring: nothing tells labels apart
  int different = network.add_table({8, 8}, entries);
  for (int e = 0; e < 90; ++e) {
    int a = pick(random, 0, 28);
    network.add_factor({a, pick(random, a + 1, 29)}, different);
  }
  Solution solution = solve_exactly(network, {.max_entries = 1 << 12});
  CHECK(solution.status == SolveStatus::kTooLarge);
  CHECK(solution.cost == kInfeasible);
  CHECK(solution.certificate == Certificate{});
}

}  // namespace
}  // namespace tpc

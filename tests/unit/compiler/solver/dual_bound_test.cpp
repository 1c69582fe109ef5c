#include "passes/solver/dual_bound.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "passes/solver/reduction.h"
#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

/// Without the labels that no feasible assignment has; nullopt when none is left.
std::optional<CostNetwork> supported(const CostNetwork& network) {
  KeptLabels kept(static_cast<size_t>(network.num_variables()));
  std::vector<Certificate::Unsupported> unsupported = unsupported_labels(network);
  for (int v = 0; v < network.num_variables(); ++v) {
    std::vector<int>& labels = kept[static_cast<size_t>(v)];
    for (int label = 0; label < network.num_labels(v); ++label) {
      Certificate::Label candidate{v, label};
      bool removed = std::any_of(unsupported.begin(), unsupported.end(),
                                 [&](const Certificate::Unsupported& u) { return u.removed == candidate; });
      if (!removed) labels.push_back(label);
    }
    if (labels.empty()) return std::nullopt;
  }
  return reduce_network(network, kept);
}

void check_bounds(const CostNetwork& network, const DualBound& bound) {
  CHECK(bound.bound <= enumerate_assignments(network).first);
  for (int v = 0; v < network.num_variables(); ++v) {
    const std::vector<Cost>& labels = bound.label_bounds[static_cast<size_t>(v)];
    CHECK(*std::min_element(labels.begin(), labels.end()) == bound.bound);
    std::vector<Cost> marginals = marginals_by_enumeration(network, v);
    for (size_t label = 0; label < labels.size(); ++label) CHECK(labels[label] <= marginals[label]);
  }
}

TEST_CASE("dual bound: never above what an assignment costs") {
  std::mt19937_64 random(61);
  int tight = 0;
  int checked = 0;
  for (int i = 0; i < 200; ++i) {
    std::optional<CostNetwork> network = supported(random_network(random, 6));
    if (!network) continue;
    CAPTURE(describe(*network));
    ++checked;
    DualBound bound = dual_bound(*network, {}, 30);
    check_bounds(*network, bound);
    DualBound more = dual_bound(*network, bound.messages, 30);
    check_bounds(*network, more);
    // In doubles the sweeps never lower it.
    CHECK(bound.bound - more.bound <= Cost{1} << 30);
    if (more.bound == enumerate_assignments(*network).first) ++tight;
    // Nonsense to start from, and nothing done about it.
    for (std::vector<Cost>& messages : bound.messages) {
      for (Cost& message : messages) message = (Cost{pick(random, -999, 999)} << pick(random, 0, 109));
    }
    check_bounds(*network, dual_bound(*network, bound.messages, 0));
  }
  CHECK(checked >= 100);
  CHECK(tight >= checked / 3);
}

TEST_CASE("dual bound: exact on trees") {
  CostNetwork network;
  std::mt19937_64 random(62);
  network.add_variable(3);
  for (int v = 1; v < 8; ++v) {
    network.add_variable(3);
    std::vector<Cost> entries(9);
    for (Cost& entry : entries) entry = pick(random, 0, 1000) * 1024;
    network.add_factor({pick(random, 0, v - 1), v}, network.add_table({3, 3}, entries));
  }
  DualBound bound = dual_bound(network, {}, 200);
  CHECK(bound.bound == enumerate_assignments(network).first);
}

TEST_CASE("dual bound: costs close to infeasible") {
  CostNetwork network;
  network.add_variable(2);
  network.add_variable(2);
  for (int i = 0; i < 300; ++i) {
    network.add_factor({0, 1}, network.add_table({2, 2}, {kInfeasible - 1, kInfeasible - 1 - i, Cost{i}, kInfeasible}));
  }
  network.add_factor({}, network.add_table({}, {5}));
  check_bounds(network, dual_bound(network, {}, 10));
}

TEST_CASE("reduction: unsupported labels, in an order that proves it") {
  // 0 - 1 - 2 in a chain of equalities; label 1 of variable 0 is forbidden.
  CostNetwork network;
  for (int v = 0; v < 3; ++v) network.add_variable(2);
  int equal = network.add_table({2, 2}, {0, kInfeasible, kInfeasible, 0});
  network.add_factor({1, 2}, equal);
  network.add_factor({0, 1}, equal);
  network.add_factor({0}, network.add_table({2}, {4, kInfeasible}));
  CHECK(unsupported_labels(network) == std::vector<Certificate::Unsupported>{{{0, 1}, 2}, {{1, 1}, 1}, {{2, 1}, 0}});
  CostNetwork reduced = reduce_network(network, {{0}, {1}, {0, 1}});
  CHECK(reduced.num_labels(1) == 1);
  CHECK(reduced.cost(std::vector{0, 0, 1}) == kInfeasible);
  CHECK(reduced.tables()[static_cast<size_t>(reduced.factors()[0].table)].entries == std::vector<Cost>{kInfeasible, 0});
  CHECK(reduced.tables()[static_cast<size_t>(reduced.factors()[1].table)].entries == std::vector<Cost>{kInfeasible});
}

}  // namespace
}  // namespace tpc

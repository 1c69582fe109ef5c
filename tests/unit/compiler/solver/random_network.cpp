#include "tests/unit/compiler/solver/random_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tpc {
namespace {

/// Few distinct costs, for ties; some in the high half of the 128 bits.
Cost random_cost(std::mt19937_64& random, int infeasible_percent) {
  if (pick(random, 0, 99) < infeasible_percent) return kInfeasible;
  return (Cost{pick(random, 0, 2)} << 70) + pick(random, 0, 3);
}

int random_table(std::mt19937_64& random, CostNetwork& network, const std::vector<int>& sizes, int infeasible_percent) {
  size_t count = 1;
  for (int size : sizes) count *= static_cast<size_t>(size);
  std::vector<Cost> entries(count);
  for (Cost& entry : entries) entry = random_cost(random, infeasible_percent);
  return network.add_table(sizes, entries);
}

template <typename Visit>
void visit_assignments(const CostNetwork& network, Visit visit) {
  auto count = static_cast<size_t>(network.num_variables());
  std::vector<int> labels(count, 0);
  size_t v = 0;
  while (v != static_cast<size_t>(-1)) {
    visit(labels);
    for (v = count; v-- > 0;) {
      if (++labels[v] < network.num_labels(static_cast<int>(v))) break;
      labels[v] = 0;
    }
  }
}

}  // namespace

int pick(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

CostNetwork random_network(std::mt19937_64& random, int max_variables) {
  CostNetwork network;
  int count = pick(random, 1, max_variables);
  for (int v = 0; v < count; ++v) network.add_variable(pick(random, 1, 4));
  int infeasible_percent = pick(random, 0, 3) * 15;
  int factors = pick(random, 0, 2 * count);
  for (int f = 0; f < factors; ++f) {
    std::vector<int> variables(static_cast<size_t>(count));
    for (int v = 0; v < count; ++v) variables[static_cast<size_t>(v)] = v;
    std::vector<int> scope;
    std::vector<int> sizes;
    int rank = std::min(count, pick(random, 0, 9) == 0 ? 0 : pick(random, 1, 3));
    for (int i = 0; i < rank; ++i) {
      auto chosen = variables.begin() + pick(random, 0, static_cast<int>(variables.size()) - 1);
      scope.push_back(*chosen);
      sizes.push_back(network.num_labels(*chosen));
      variables.erase(chosen);
    }
    network.add_factor(scope, random_table(random, network, sizes, infeasible_percent));
  }
  return network;
}

CostNetwork random_layers(std::mt19937_64& random, int num_layers, int num_long_lived) {
  constexpr int kPerLayer = 6;
  // Variables of a pattern: those of a layer, then those of the layer before, then the long-lived ones.
  constexpr int kPrevious = kPerLayer;
  constexpr int kLongLived = 2 * kPerLayer;
  std::vector<int> labels(kLongLived + 2);
  for (int& count : labels) count = pick(random, 1, 4);
  std::copy_n(labels.begin(), kPerLayer, labels.begin() + kPrevious);

  CostNetwork network;
  std::vector<CostNetwork::Factor> patterns;
  auto add_pattern = [&](const std::vector<int>& scope) {
    std::vector<int> sizes;
    sizes.reserve(scope.size());
    for (int v : scope) sizes.push_back(labels[static_cast<size_t>(v)]);
    patterns.push_back({scope, random_table(random, network, sizes, 5)});
  };
  for (int v = 0; v < kPerLayer; ++v) {
    add_pattern({v});
    add_pattern({v == 0 ? kPrevious + kPerLayer - 1 : v - 1, v});
    if (v >= 2) add_pattern({v, v - 2, v - 1});
  }
  for (int g = 0; g < num_long_lived; ++g) {
    add_pattern({kLongLived + g, pick(random, 0, kPerLayer - 1)});
    add_pattern({kPrevious + pick(random, 0, kPerLayer - 1), kLongLived + g});
  }

  std::vector<int> variables(labels.size(), -1);
  for (size_t v = kLongLived; v < size_t{kLongLived} + static_cast<size_t>(num_long_lived); ++v) {
    variables[v] = network.add_variable(labels[v]);
  }
  for (int layer = 0; layer < num_layers; ++layer) {
    for (size_t v = 0; v < kPerLayer; ++v) {
      variables[kPrevious + v] = std::exchange(variables[v], network.add_variable(labels[v]));
    }
    for (const CostNetwork::Factor& pattern : patterns) {
      std::vector<int> scope;
      for (int v : pattern.scope) scope.push_back(variables[static_cast<size_t>(v)]);
      if (std::find(scope.begin(), scope.end(), -1) == scope.end()) network.add_factor(scope, pattern.table);
    }
  }
  return network;
}

std::pair<Cost, std::vector<int>> enumerate_assignments(const CostNetwork& network) {
  std::pair<Cost, std::vector<int>> best{kInfeasible, {}};
  visit_assignments(network, [&](const std::vector<int>& labels) {
    Cost cost = network.cost(labels);
    if (cost < best.first) best = {cost, labels};
  });
  return best;
}

std::vector<Cost> marginals_by_enumeration(const CostNetwork& network, int variable) {
  std::vector<Cost> least(static_cast<size_t>(network.num_labels(variable)), kInfeasible);
  visit_assignments(network, [&](const std::vector<int>& labels) {
    Cost& entry = least[static_cast<size_t>(labels[static_cast<size_t>(variable)])];
    entry = std::min(entry, network.cost(labels));
  });
  return least;
}

CostNetwork edited(const CostNetwork& network, const FactorEdit& edit) {
  CostNetwork result;
  for (int v = 0; v < network.num_variables(); ++v) result.add_variable(network.num_labels(v));
  for (size_t f = 0; f < network.factors().size(); ++f) {
    const CostNetwork::Factor& factor = network.factors()[f];
    CostTable table = network.tables()[static_cast<size_t>(factor.table)];
    if (edit(f, table)) result.add_factor(factor.scope, result.add_table(table.sizes, table.entries));
  }
  return result;
}

std::string describe(const CostNetwork& network) {
  std::string text;
  for (int v = 0; v < network.num_variables(); ++v) text += fmt::format("x{}: {} labels\n", v, network.num_labels(v));
  for (const CostNetwork::Factor& factor : network.factors()) {
    text += fmt::format("({}):", fmt::join(factor.scope, ", "));
    for (Cost entry : network.tables()[static_cast<size_t>(factor.table)].entries) text += " " + to_string(entry);
    text += "\n";
  }
  return text;
}

}  // namespace tpc

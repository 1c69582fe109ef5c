/// Random cost networks for the solver's tests, small enough to enumerate or repeated in layers.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "passes/solver/cost_network.h"

namespace tpc {

/// Uniform in [low, high]; unlike std::uniform_int_distribution the same on every standard library.
int pick(std::mt19937_64& random, int low, int high);

/// Up to `max_variables` variables of one to four labels, and factors over up to three of them, with ties and
/// infeasible entries: often many, so that some networks have no solution.
CostNetwork random_network(std::mt19937_64& random, int max_variables);

/// A random layer of six variables, repeated in a chain; so many variables (up to two) live through all layers.
CostNetwork random_layers(std::mt19937_64& random, int num_layers, int num_long_lived);

/// The least cost and the first assignment that has it, by enumeration.
std::pair<Cost, std::vector<int>> enumerate_assignments(const CostNetwork& network);

/// For each label of the variable the least cost of an assignment with it, by enumeration.
std::vector<Cost> marginals_by_enumeration(const CostNetwork& network, int variable);

/// Changes the table of a factor; false: leaves the factor out.
using FactorEdit = std::function<bool(size_t factor, CostTable& table)>;

/// The network built anew with each factor edited.
CostNetwork edited(const CostNetwork& network, const FactorEdit& edit);

/// The network in words, for the message of a failed test.
std::string describe(const CostNetwork& network);

}  // namespace tpc

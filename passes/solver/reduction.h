/// Cost networks with fewer labels.
#pragma once

#include <optional>
#include <vector>

#include "passes/solver/certificate.h"
#include "passes/solver/cost_network.h"

namespace tpc {

/// Per variable the labels to keep, in increasing order: at least one each.
using KeptLabels = std::vector<std::vector<int>>;

/// The same variables and factors with these labels alone, numbered anew from 0.
CostNetwork reduce_network(const CostNetwork& network, const KeptLabels& kept);

/// The labels that no feasible assignment can have, since all entries of a factor say so: arc consistency. Without
/// them, every label has a feasible entry in every factor of its variable. All labels of some variable may be in it;
/// the list then stops.
std::vector<Certificate::Unsupported> unsupported_labels(const CostNetwork& network);

}  // namespace tpc

/// Lower bounds on the cost of a network, and of each label: the dual of its linear relaxation.
#pragma once

#include <vector>

#include "passes/solver/cost_network.h"

namespace tpc {

/// Per factor a cost for each label of its first variable, then of its second, and so on.
using FactorMessages = std::vector<std::vector<Cost>>;

struct DualBound {
  /// In every factor, every feasible entry is at least the sum of the messages to its labels.
  FactorMessages messages;
  /// What every assignment costs at least: per variable the least sum of the messages to a label; and the factors
  /// without variables.
  Cost bound = 0;
  /// Per variable and label: what an assignment with it costs at least, `bound` or more.
  std::vector<std::vector<Cost>> label_bounds;
};

/// Raises the bound by `sweeps` rounds of block-coordinate ascent, from the messages `start` (none: zero), which need
/// not be valid. Each factor in turn takes the messages to its variables back and hands out as much as its entries
/// allow, in equal shares (the handshake of MPLP++: Tourani, Shekhovtsov, Rother, Savchynskyy, ECCV 2018; here for
/// factors of any number of variables). This runs in doubles; the messages are then made integers and as large as the
/// entries allow, so that the result is exact, whatever was lost before.
///
/// Every label needs a feasible entry in every factor of its variable (see unsupported_labels).
DualBound dual_bound(const CostNetwork& network, const FactorMessages& start, int sweeps);

}  // namespace tpc

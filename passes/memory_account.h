/// Memory by an account that adds up over the step, so that a strategy can weigh it: what waits on a rank at the end of
/// forward, and gradients. The arena's peak (plan_memory) is the truth; the account leaves out what lives within a
/// layer and counts gradients and activations as if all waited at once.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"

namespace tpc {

/// Bytes on the fullest rank of a graph at Stage::kPlaced: leaves at rest, gradients and states as their updates want
/// them, and of every forward value and leaf the forms that wait for backward (Value::kept, else all that backward
/// reads).
int64_t memory_account(const Graph& graph);

}  // namespace tpc

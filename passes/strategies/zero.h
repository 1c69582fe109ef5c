/// ZeRO for strategy megatron: optimizer state, gradients and parameters split over the data axes (Rajbhandari et al.,
/// "ZeRO: memory optimizations toward training trillion parameter models", 2020).
#pragma once

#include "passes/strategies/node_rules.h"
#include "passes/strategies/strategy.h"

namespace tpc {

/// Splits each update over the data axes along the parameter's largest dimension that no other axis splits (a block of
/// a block would not be contiguous); a tensor without such a dimension stays as it is.
///   stage 1, 2  optimizer state and gradients are split: a gradient is reduce-scattered where it is made, the updated
///               parameter gathered. A gradient never waits whole, so that the two stages are one plan.
///   stage 3     parameters too: gathered for forward, and again for backward.
void split_over_data(const Graph& graph, const NodeRules& rules, int stage, ChosenShardings& chosen);

}  // namespace tpc

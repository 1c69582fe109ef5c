/// Strategy "megatron": what people who know Megatron-LM expect, by fixed rules.
///
/// Axis dp: inputs are split on dimension 0, parameters are whole; everything follows without conversions, and weight
/// gradients are summed where they are made.
/// Axis tp: a linear whose input is whole is column-parallel if the split can be carried, through the ops that follow,
/// to a contraction over it (its row-parallel partner) or to the loss; attention is split by heads; tables by
/// vocabulary. Otherwise a layer is replicated. Sums are completed right after the layer that makes them: by
/// all_reduce, or with sequence parallelism by reduce_scatter along the sequence. Gradient nodes are split by the
/// factor of their forward node.
#pragma once

#include "passes/strategies/strategy.h"

namespace tpc {

/// Splits tp into sub-axes where it is a multiple of the kv heads of a grouped attention: kv heads on the outer one.
DeviceMesh megatron_mesh(const Graph& graph, const DeviceMesh& mesh, const CompileOptions& options);

ChosenShardings megatron_choose(const Graph& graph, const PassContext& context);

}  // namespace tpc

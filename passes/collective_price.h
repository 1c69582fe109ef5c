/// What the collectives of a graph cost together.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "compiler/sharding/move_price.h"

namespace tpc {

/// Sum over the collectives of a graph at Stage::kCollective or later; bytes are those of the fullest rank of each.
int64_t collective_price(const Graph& graph, const MovePrice& price);

}  // namespace tpc

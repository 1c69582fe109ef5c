/// Sub-axes: an axis of the user's that the compiler splits in several, named "tp.0", "tp.1", ...
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace tpc {

/// Splits tp where it is a multiple of the kv heads of a grouped attention: kv heads on the outer sub-axis, so that
/// ranks of the inner one share keys and values.
DeviceMesh split_for_kv_heads(const Graph& graph, const DeviceMesh& mesh);

/// Splits tp into these sizes, outermost first. Throws UserError when their product is not the axis's size.
DeviceMesh split_as_asked(const DeviceMesh& mesh, const std::vector<int64_t>& sizes);

}  // namespace tpc

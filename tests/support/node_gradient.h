/// Applies the gradient of a single node, as the backward pass would.
#pragma once

#include <vector>

#include "tests/support/graph_builder.h"

namespace tpc::testing {

/// Appends the gradient nodes of `node` (of builder's graph) and returns the gradient of each operand: invalid where
/// the op declares none. grads_of_results[i] may be invalid (zero); needs_grad[i] says whether operand i wants one.
/// Throws InternalError when the op declares a gradient that is not needed, or twice, or of another type.
std::vector<ValueId> add_node_gradient(GraphBuilder& builder, const Node& node, std::vector<ValueId> grads_of_results,
                                       std::vector<bool> needs_grad);

}  // namespace tpc::testing

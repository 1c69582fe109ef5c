/// schedule: the final order of the steps.
///
/// Leaves come first, then forward, backward and optimizer nodes; within a phase the order is topological and otherwise
/// unchanged; nodes whose results nobody reads are dropped, with their values.
///
/// Needs local, gives scheduled. After every pass that adds nodes, right before memory is planned for this order.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph schedule(Graph graph, const PassContext& context);

}  // namespace tpc

/// emit-plan: the scheduled graph as a Plan, its tensors still without buffers (plan-memory gives them).
#pragma once

#include <map>
#include <string>

#include "compiler/plan/plan.h"

namespace tpc {

Plan emit_plan(const Graph& graph, const std::map<std::string, std::string>& options);

}  // namespace tpc

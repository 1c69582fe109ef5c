/// Faults that people and programs make in plans: each kind at every place of a plan where it can be made.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/plan/plan.h"

namespace tpc::testing {

/// Makes a copy of the plan that is visited faulty. A plan may come out as it was.
using Edit = std::function<void(Plan& copy)>;

/// Told every fault; `what` says kind and place. Edits outlive the visit, and the plan them.
using VisitFault = std::function<void(const Edit& edit, const std::string& what)>;

struct PlanFault {
  std::string_view name;
  void (*make)(const Plan& plan, const VisitFault& visit);
};

/// Steps left out, doubled, moved or of another kind, among other ranks; other operands, attributes and placements;
/// ends left out; buffers moved.
std::span<const PlanFault> plan_faults();

}  // namespace tpc::testing

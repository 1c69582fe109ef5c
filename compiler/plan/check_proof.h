/// Part of check_plan: does the proof speak of this plan?
#pragma once

#include "compiler/plan/plan.h"
#include "compiler/plan/plan_issues.h"

namespace tpc {

/// The proof's price is what the plan's collectives cost, and its bound no more; options name the plan's mesh. Steps
/// must have been checked. That no cheaper plan exists is not checked: the certificate is not in the file.
void check_proof(const Plan& plan, PlanIssues& issues);

}  // namespace tpc

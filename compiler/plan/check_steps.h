/// Part of check_plan: is every step one that its op allows?
#pragma once

#include "compiler/plan/plan.h"
#include "compiler/plan/plan_issues.h"

namespace tpc {

/// Arity and attributes of every step. Indices must be in range.
void check_step_forms(const Plan& plan, PlanIssues& issues);

/// Types, shardings and moves, once a class of steps (see plan_classes.h); the first step of a class is named. Forms
/// and tensors must have been checked.
void check_step_rules(const Plan& plan, PlanIssues& issues);

}  // namespace tpc

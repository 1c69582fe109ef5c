/// Small edits of a plan, of which faults are made.
#pragma once

#include "compiler/plan/plan.h"

namespace tpc::testing {

/// Steps from `first` on, and the outputs, that read `from` read `to`.
void read_instead(Plan& plan, int from, int to, size_t first = 0);

/// A new tensor like `like`, in memory of its own.
int add_tensor(Plan& plan, int like, const TensorSharding& sharding);

void insert_step(Plan& plan, size_t at, PlanStep step);
void remove_step(Plan& plan, size_t at);

/// Indices of the steps that read `tensor`.
std::vector<size_t> readers(const Plan& plan, int tensor);

}  // namespace tpc::testing

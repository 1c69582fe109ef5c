/// Which tensors of two plans lie differently, and which only one of them has.
#pragma once

#include <vector>

#include "compiler/plan/plan_difference.h"

namespace tpc {

struct TensorChanges {
  std::vector<TensorChange> types;
  std::vector<TensorChange> placements;
  std::vector<LoneTensor> lone;
};

/// Of tensors by name; what moves make does not count.
TensorChanges tensor_changes(const Plan& before, const Plan& after);

}  // namespace tpc

/// Tensors and steps of a plan that differ only by name: what a layer repeated 126 times has in common. Legality, local
/// regions and cost are worked out once a class, so that the length of a model hardly matters.
#pragma once

#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/plan/plan.h"

namespace tpc {

struct PlanClasses {
  /// Equal type and sharding. tensors[i] is the class of tensor i; tensor_examples[c] the first tensor of class c.
  std::vector<int> tensors;
  std::vector<int> tensor_examples;
  /// Equal op, attributes and classes of operands and results.
  std::vector<int> steps;
  std::vector<int> step_examples;
};

/// Every index in the plan must be in range.
PlanClasses classify(const Plan& plan);

/// Global types, shapes and shardings of a list of tensors of the plan.
std::vector<TensorType> types_of(const Plan& plan, const std::vector<int>& tensors);
std::vector<Shape> shapes_of(const Plan& plan, const std::vector<int>& tensors);
std::vector<TensorSharding> shardings_of(const Plan& plan, const std::vector<int>& tensors);

/// Work of a step on the regions that the rank at `coordinate` holds.
OpCost local_cost(const Plan& plan, const PlanStep& step, std::span<const int64_t> coordinate);

}  // namespace tpc

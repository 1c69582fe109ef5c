#include "compiler/verify/proved_classes.h"

#include <algorithm>

#include "compiler/core/check.h"

namespace tpc::verify {

PlanClasses proved_classes(const Plan& plan) {
  PlanClasses classes = classify(plan);
  TPC_CHECK(classes.tensors.size() == plan.tensors.size() && classes.steps.size() == plan.steps.size(),
            "classes of {} tensors and {} steps", classes.tensors.size(), classes.steps.size());
  auto class_of = [&](int tensor) { return classes.tensors[static_cast<size_t>(tensor)]; };
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    int example = classes.tensor_examples[static_cast<size_t>(classes.tensors[t])];
    const PlanTensor& like = plan.tensors[static_cast<size_t>(example)];
    TPC_CHECK(plan.tensors[t].type == like.type && plan.tensors[t].sharding == like.sharding,
              "\"{}\" is no tensor like \"{}\"", plan.tensors[t].name, like.name);
  }
  auto are_alike = [&](const std::vector<int>& a, const std::vector<int>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](int left, int right) { return class_of(left) == class_of(right); });
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    int example = classes.step_examples[static_cast<size_t>(classes.steps[i])];
    const PlanStep& step = plan.steps[i];
    const PlanStep& like = plan.steps[static_cast<size_t>(example)];
    TPC_CHECK(step.op == like.op && step.attributes == like.attributes && are_alike(step.operands, like.operands) &&
                  are_alike(step.results, like.results),
              "step {} is no step like {}", i, example);
  }
  return classes;
}

}  // namespace tpc::verify

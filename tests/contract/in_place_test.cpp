// The verifier's table says of the same results as the ops' own that they may be written over an operand.
#include <doctest/doctest.h>

#include "compiler/verify/op_meaning.h"
#include "tests/support/op_samples.h"

namespace tpc::testing {
namespace {

/// The sample as the only step of a plan.
Plan plan_of(const OpSample& sample) {
  TypedOp typed = sample.typed();
  Plan plan;
  PlanStep step;
  step.op = sample.op;
  step.attributes = sample.attributes;
  auto add = [&](const TensorType& type, std::vector<int>& list) {
    list.push_back(static_cast<int>(plan.tensors.size()));
    plan.tensors.emplace_back().type = type;
  };
  for (const TensorType& type : typed.operands) add(type, step.operands);
  for (const TensorType& type : typed.results) add(type, step.results);
  plan.steps.push_back(std::move(step));
  return plan;
}

}  // namespace

TEST_CASE("the verifier lets an op work in place where the op says that it may, and nowhere else") {
  for (const OpSample& sample : op_samples()) {
    const Plan plan = plan_of(sample);
    std::optional<verify::OpMeaning> meaning = verify::op_meaning(plan, plan.steps[0]);
    if (!meaning) continue;
    CAPTURE(sample.text());
    const std::vector<int>& declared = op_def(sample.op).inplace;
    for (size_t r = 0; r < plan.steps[0].results.size(); ++r) {
      int wanted = r < declared.size() ? declared[r] : -1;
      bool has_operand = r < meaning->over.size() && meaning->over[r] < plan.steps[0].operands.size();
      CHECK((has_operand ? static_cast<int>(meaning->over[r]) : -1) == wanted);
    }
  }
}

}  // namespace tpc::testing

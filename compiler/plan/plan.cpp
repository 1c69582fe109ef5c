#include "compiler/plan/plan.h"

#include "compiler/core/check.h"
#include "compiler/ir/move_ops.h"

namespace tpc {

std::string_view to_string(TensorRole role) {
  switch (role) {
    case TensorRole::kInput:
      return "input";
    case TensorRole::kParameter:
      return "parameter";
    case TensorRole::kState:
      return "state";
    case TensorRole::kActivation:
      return "activation";
    case TensorRole::kGradient:
      return "gradient";
    case TensorRole::kOther:
      return "other";
    case TensorRole::kWeight:
      return "weight";
  }
  TPC_UNREACHABLE("tensor role {}", static_cast<int>(role));
}

std::vector<int> producers(const Plan& plan) {
  std::vector<int> made_by(plan.tensors.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int result : plan.steps[i].results) made_by[static_cast<size_t>(result)] = static_cast<int>(i);
  }
  return made_by;
}

Move step_move(const Plan& plan, const PlanStep& step) {
  TPC_CHECK(step.operands.size() == 1 && step.results.size() == 1, "{} has {} operands and {} results",
            op_name(step.op), step.operands.size(), step.results.size());
  std::optional<MoveKind> kind = move_kind(step.op);
  TPC_CHECK(kind.has_value(), "{} is not a move", op_name(step.op));
  return {*kind, step.attributes.get_ints("axes"), plan.tensors[static_cast<size_t>(step.operands[0])].sharding,
          plan.tensors[static_cast<size_t>(step.results[0])].sharding};
}

bool is_collective(OpKind op) {
  std::optional<MoveKind> kind = move_kind(op);
  return kind && communicates(*kind);
}

bool is_move(OpKind op) { return move_kind(op).has_value(); }

bool persists(TensorRole role) {
  return role == TensorRole::kInput || role == TensorRole::kParameter || role == TensorRole::kState;
}

}  // namespace tpc

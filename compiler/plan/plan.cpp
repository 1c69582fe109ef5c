#include "compiler/plan/plan.h"

#include "compiler/core/check.h"

namespace tpc {
namespace {

MoveKind move_kind(OpKind op) {
  switch (op) {
    case OpKind::kAllReduce:
      return MoveKind::kAllReduce;
    case OpKind::kReduceScatter:
      return MoveKind::kReduceScatter;
    case OpKind::kAllGather:
      return MoveKind::kAllGather;
    case OpKind::kAllToAll:
      return MoveKind::kAllToAll;
    case OpKind::kLocalSlice:
      return MoveKind::kSlice;
    case OpKind::kMask:
      return MoveKind::kMask;
    case OpKind::kZeroPad:
      return MoveKind::kZeroPad;
    default:
      TPC_UNREACHABLE("{} is not a move", op_name(op));
  }
}

}  // namespace

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
  }
  TPC_UNREACHABLE("tensor role {}", static_cast<int>(role));
}

Move step_move(const Plan& plan, const PlanStep& step) {
  TPC_CHECK(step.operands.size() == 1 && step.results.size() == 1, "{} has {} operands and {} results",
            op_name(step.op), step.operands.size(), step.results.size());
  return {move_kind(step.op), step.attributes.get_ints("axes"),
          plan.tensors[static_cast<size_t>(step.operands[0])].sharding,
          plan.tensors[static_cast<size_t>(step.results[0])].sharding};
}

bool is_collective(OpKind op) {
  return op == OpKind::kAllReduce || op == OpKind::kAllGather || op == OpKind::kReduceScatter ||
         op == OpKind::kAllToAll;
}

bool is_move(OpKind op) {
  return is_collective(op) || op == OpKind::kLocalSlice || op == OpKind::kMask || op == OpKind::kZeroPad;
}

}  // namespace tpc

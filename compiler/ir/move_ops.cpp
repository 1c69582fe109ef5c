#include "compiler/ir/move_ops.h"

#include <array>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

constexpr std::array<std::pair<MoveKind, OpKind>, 7> kMoveOps{{
    {MoveKind::kAllReduce, OpKind::kAllReduce},
    {MoveKind::kReduceScatter, OpKind::kReduceScatter},
    {MoveKind::kAllGather, OpKind::kAllGather},
    {MoveKind::kAllToAll, OpKind::kAllToAll},
    {MoveKind::kSlice, OpKind::kLocalSlice},
    {MoveKind::kMask, OpKind::kMask},
    {MoveKind::kZeroPad, OpKind::kZeroPad},
}};

}  // namespace

OpKind op_of(MoveKind kind) {
  for (const auto& [move, op] : kMoveOps) {
    if (move == kind) return op;
  }
  TPC_UNREACHABLE("no op performs {}", to_string(kind));
}

std::optional<MoveKind> move_kind(OpKind op) {
  for (const auto& [move, move_op] : kMoveOps) {
    if (move_op == op) return move;
  }
  return std::nullopt;
}

}  // namespace tpc

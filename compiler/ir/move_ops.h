/// Moves between placements as ops: the one table of which is which.
#pragma once

#include <optional>

#include "compiler/ir/op_kind.h"
#include "compiler/sharding/collective.h"

namespace tpc {

/// The op that performs a move: all_reduce, ..., local_slice, mask, zero_pad.
OpKind op_of(MoveKind kind);
/// nullopt when the op is no move.
std::optional<MoveKind> move_kind(OpKind op);

}  // namespace tpc

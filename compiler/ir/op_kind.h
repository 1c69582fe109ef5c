/// The kinds of ops, generated from op_list.def. What an op means stands in compiler/ops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

enum class OpKind : uint8_t {
#define OP(enumerator, row) k##enumerator,
#include "compiler/ir/op_list.def"
#undef OP
};

/// The enumerator in snake_case, the spelling in printed graphs and plans: "all_reduce", "rms_norm", "adamw".
std::string_view op_name(OpKind kind);
std::optional<OpKind> parse_op_kind(std::string_view name);
/// Every name, in the order of op_list.def.
std::vector<std::string> op_names();

/// Leaves: input, parameter, state. They have no operands and keep their value from step to step.
constexpr bool is_leaf(OpKind kind) {
  return kind == OpKind::kInput || kind == OpKind::kParameter || kind == OpKind::kState;
}

}  // namespace tpc

/// The attributes that steps (and leaves: parameters, inputs, states) carry, by op: what a plan edited by hand must
/// name, since ops read them without asking.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/attributes.h"
#include "compiler/ir/op_kind.h"

namespace tpc {

/// What is wrong with the attributes of a step of that op: one missing, unknown or of another kind. nullopt when all is
/// well.
struct AttributeMistake {
  /// The attribute's name; "" when one is missing.
  std::string name;
  std::string message;
};
std::optional<AttributeMistake> attribute_mistake(OpKind op, const Attributes& attributes);

/// For a parameter whose attributes are otherwise right: whether its initializer has the number that it needs.
std::optional<AttributeMistake> initializer_mistake(const Attributes& attributes);

}  // namespace tpc

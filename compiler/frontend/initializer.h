/// How a parameter starts.
#pragma once

#include "compiler/frontend/json_node.h"
#include "compiler/frontend/named_sizes.h"
#include "compiler/ir/attributes.h"

namespace tpc {

/// Standard deviation of weights whose layer says nothing.
constexpr double kDefaultWeightStd = 0.02;

/// Reads "zeros", "ones", {"normal": STD}, {"uniform": BOUND} or {"constant": VALUE} into a parameter's attributes.
void read_initializer(const JsonNode& node, NamedSizes& sizes, Attributes& attributes);
/// The same for a layer's default: "normal" (with kDefaultWeightStd), "zeros" or "ones".
void default_initializer(std::string_view init, Attributes& attributes);

}  // namespace tpc

/// What the optimizer ops share: operands w, g, states of the same shape, and perhaps a scalar that multiplies g.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace tpc {

/// Checks w, g and the states (`names` in order, w first) against each other, and the coefficient behind them when
/// attribute "has_coefficient" says that there is one. Throws OpTypeError.
void check_optimizer_operands(const OpQuery& query, const std::vector<std::string_view>& names);

/// A decay rate of a running mean: throws OpTypeError unless 0 <= attribute < 1.
void require_decay_rate(const Attributes& attributes, std::string_view name);

}  // namespace tpc

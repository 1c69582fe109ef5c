/// Which tensors of an op a kernel must take as bf16.
#pragma once

#include <vector>

#include "tests/support/rank_step.h"

namespace tpc::testing {

/// The step with all floats f32, and with every mix of f32 and bf16 that may stand in a plan. Values of bf16 operands
/// are rounded to it.
std::vector<RankStep> float_variants(const RankStep& step);

bool has_bf16(const RankStep& step);

/// "f32 bf16 -> f32".
std::string float_text(const RankStep& step);

double rounded_to_bf16(double value);

}  // namespace tpc::testing

/// Steps that one launch does together: on tensors of many sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/rank_step.h"

namespace tpc::testing {

/// Parameters that take a step of AdamW, of SGD with momentum and without; some with gradients that are clipped.
std::vector<RankStep> adamw_group();
std::vector<RankStep> sgd_group();
/// One parameter, in the training step of this number.
RankStep adamw_in_step(uint64_t number);
/// Tensors whose squares are summed.
std::vector<RankStep> sum_squares_group();
/// Tensors that others are copied over, f32 and bf16.
std::vector<RankStep> update_group();

}  // namespace tpc::testing

/// What every CUDA kernel is tried on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/kernel_cases.h"
#include "tests/support/rank_step.h"

namespace tpc::testing {

/// The op contract's samples of the op and, unless `only_tiny`, those around the sizes of vectors and blocks. Values
/// are floats.
std::vector<KernelCase> kernel_samples(OpKind op, bool only_tiny);

/// Calls visit(step, text) for every share of every sample on one, two and three ranks, as f32 and in every mix with
/// bf16; `text` names it. Returns how many there were.
size_t for_each_sample(OpKind op, bool only_tiny,
                       const std::function<void(const RankStep& step, const std::string& text)>& visit);

}  // namespace tpc::testing

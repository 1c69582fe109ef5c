/// What every CUDA kernel is tried on.
#pragma once

#include <functional>
#include <vector>

#include "tests/support/kernel_cases.h"
#include "tests/support/rank_step.h"

namespace tpc::testing {

/// The op contract's samples of the op and, unless `only_tiny`, those around the sizes of vectors and blocks; as f32 and
/// bf16, also with leaves in f32 among data in bf16. Values are ones of the type.
std::vector<KernelCase> kernel_samples(OpKind op, bool only_tiny);

/// Calls visit(step) for every share of every sample on one, two and three ranks. Returns how many there were.
size_t for_each_sample(OpKind op, bool only_tiny, const std::function<void(const RankStep&)>& visit);

}  // namespace tpc::testing

/// Steps on bf16 tensors by kernels that know f32 only.
#pragma once

#include <functional>
#include <memory>

#include "runtime/backend.h"
#include "runtime/cpu/lasting_floats.h"

namespace tpc {

bool has_bf16(const LocalStep& step);

/// `prepare` makes the kernel of the same step with f32 in place of every bf16 tensor. Operands are widened before it
/// runs, results rounded to nearest even after it. `room` is shared by the
/// kernels of a rank.
std::unique_ptr<Kernel> widened_kernel(const LocalStep& step, std::shared_ptr<LastingFloats> room,
                                       const std::function<std::unique_ptr<Kernel>(const LocalStep&)>& prepare);

}  // namespace tpc

/// What the kernel of a step issues to its queue.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/lowering/local_step.h"

namespace tpc {

/// In this order.
struct KernelWork {
  int64_t filled_bytes = 0;  ///< of the result, set to zero by one call
  int64_t copied_bytes = 0;  ///< from the operand to the result, by one call
  int launches = 0;
};

/// Of steps that num_together() put together and that are no products.
KernelWork kernel_work(std::span<const LocalStep> steps);

}  // namespace tpc

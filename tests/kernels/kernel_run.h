/// Runs a CUDA kernel on tensors in device memory, whatever the device is: a GPU, or the emulation of one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/kernel_table.h"
#include "tests/support/rank_step.h"

namespace tpc::testing {

using Prepare = std::function<std::unique_ptr<Kernel>(const LocalStep&, cuda::DeviceQueue&)>;
using PrepareGroup = std::function<std::unique_ptr<Kernel>(std::span<const LocalStep>, cuda::DeviceQueue&)>;

enum class Buffers {
  kSeparate,
  kInPlace,  ///< results lie over the operands that the op's row says, where types and sizes are the same
};

/// Results of the kernel, run twice unless in place. An op without results gives its operands. Fails the test when
/// something outside the results is written.
std::vector<std::vector<double>> run_kernel(const Prepare& prepare, const RankStep& step, Buffers buffers);

/// The same for steps that one kernel does together: results of each. The context is the first one's.
std::vector<std::vector<std::vector<double>>> run_kernel_group(const PrepareGroup& prepare,
                                                               std::span<const RankStep> steps, Buffers buffers);

}  // namespace tpc::testing

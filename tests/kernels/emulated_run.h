/// Runs a CUDA kernel on the CPU.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/kernel_table.h"
#include "tests/support/rank_step.h"

namespace tpc::testing {

using Prepare = std::function<std::unique_ptr<Kernel>(const LocalStep&, cuda::DeviceQueue&)>;

/// See gpu::Config.
struct Emulation {
  uint64_t seed = 0;
  unsigned max_block_threads = 1024;
};

enum class Buffers {
  kSeparate,
  kInPlace,  ///< results lie over the operands that the op's row says, where types and sizes are the same
};

/// Results of the kernel, run twice unless in place. An op without results gives its operands. Fails the test when
/// something outside the results is written.
std::vector<std::vector<double>> run_emulated(const Prepare& prepare, const RankStep& step, Buffers buffers,
                                              const Emulation& emulation);

using PrepareGroup = std::function<std::unique_ptr<Kernel>(std::span<const LocalStep>, cuda::DeviceQueue&)>;

/// The same for steps that one kernel does together: results of each. Context and buffers as for a single one.
std::vector<std::vector<std::vector<double>>> run_emulated_group(const PrepareGroup& prepare,
                                                                 std::span<const RankStep> steps, Buffers buffers,
                                                                 const Emulation& emulation);

}  // namespace tpc::testing

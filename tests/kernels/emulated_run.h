/// Runs a CUDA kernel on the CPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/kernels/kernel_run.h"

namespace tpc::testing {

/// See gpu::Config.
struct Emulation {
  uint64_t seed = 0;
  unsigned max_block_threads = 1024;
};

/// run_kernel and run_kernel_group, emulated so.
std::vector<std::vector<double>> run_emulated(const Prepare& prepare, const RankStep& step, Buffers buffers,
                                              const Emulation& emulation);
std::vector<std::vector<std::vector<double>>> run_emulated_group(const PrepareGroup& prepare,
                                                                 std::span<const RankStep> steps, Buffers buffers,
                                                                 const Emulation& emulation);

}  // namespace tpc::testing

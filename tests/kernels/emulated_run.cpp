#include "tests/kernels/emulated_run.h"

#include "runtime/cuda/gpu.h"

namespace tpc::testing {
namespace {

class EmulationScope {
 public:
  explicit EmulationScope(const Emulation& emulation) : before_(gpu::config) {
    gpu::config.seed = emulation.seed;
    gpu::config.max_block_threads = emulation.max_block_threads;
  }
  ~EmulationScope() { gpu::config = before_; }
  EmulationScope(const EmulationScope&) = delete;
  EmulationScope& operator=(const EmulationScope&) = delete;

 private:
  gpu::Config before_;
};

}  // namespace

std::vector<std::vector<double>> run_emulated(const Prepare& prepare, const RankStep& step, Buffers buffers,
                                              const Emulation& emulation) {
  const EmulationScope scope(emulation);
  return run_kernel(prepare, step, buffers);
}

std::vector<std::vector<std::vector<double>>> run_emulated_group(const PrepareGroup& prepare,
                                                                 std::span<const RankStep> steps, Buffers buffers,
                                                                 const Emulation& emulation) {
  const EmulationScope scope(emulation);
  return run_kernel_group(prepare, steps, buffers);
}

}  // namespace tpc::testing

/// The backend `cuda`: one rank's kernels and products on one GPU.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/backend.h"
#include "runtime/cuda/cudnn_attention.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_queue.h"
#include "runtime/cuda/matmul.h"
#include "runtime/cuda/step_graph.h"

namespace tpc::cuda {

struct CudaOptions {
  MatmulOptions matmul;
  /// Segments are captured in CUDA graphs after their first run.
  bool use_graphs = true;
  /// Attention in bf16 is cuDNN's where that is installed and takes it.
  bool use_cudnn = true;
  /// Memory that peers write into directly, see NcclOptions.
  bool symmetric_memory = false;
};

/// Kernels go to the compute queue; collectives of a communicator that shares this backend's queues to the other one.
class CudaBackend final : public Backend {
 public:
  /// Of the current device of the calling thread.
  explicit CudaBackend(CudaOptions options = {});

  DeviceQueue& compute() { return compute_; }
  DeviceQueue& communication() { return communication_; }
  /// Called again and again while wait() waits, with when that began; it throws to end the wait.
  using Poll = std::function<void(std::chrono::steady_clock::time_point since)>;
  void set_poll(Poll poll) { poll_ = std::move(poll); }

  std::string_view name() const override { return "cuda"; }
  std::unique_ptr<DeviceMemory> allocate(int64_t bytes, bool host_visible) override;
  bool is_host() const override { return false; }
  void upload(void* device, const void* host, int64_t bytes) override;
  void download(void* host, const void* device, int64_t bytes, DeviceQueueKind queue) override;
  void* host_buffer(int64_t bytes) override;

  size_t num_together(std::span<const LocalStep> steps) const override;
  std::unique_ptr<Kernel> prepare_together(std::span<const LocalStep> steps) override;
  std::unique_ptr<Mark> make_mark(DeviceQueueKind queue) override;

  void begin_step(const StepContext& context) override;
  void run(Segment& segment, bool is_observed) override;
  void wait() override;
  void enter() override;
  void release_segments() override;
  void quiesce() override;

  /// What the device has used before, by whomever, is not this rank's: called when everything is open.
  void count_memory_from_here();
  int64_t planned_workspace(const RankUnits& units) const override;
  std::optional<MemoryUse> memory_use() const override;

 private:
  std::unique_ptr<Kernel> prepare_unchecked(std::span<const LocalStep> steps);

  CudaOptions options_;
  int device_ = 0;
  DeviceQueue compute_;
  DeviceQueue communication_;
  Matmuls matmuls_;
  std::unique_ptr<CudnnAttentions> cudnn_;  // nullptr where it is not to be used
  std::vector<PinnedMemory> host_buffers_;
  std::map<size_t, StepGraph> graphs_;  // by segment
  int64_t arena_bytes_ = 0;
  int64_t free_at_start_ = 0;
  Poll poll_;
};

}  // namespace tpc::cuda

/// What backends have in common whose kernels are ordinary functions on ordinary memory.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "runtime/arena.h"
#include "runtime/backend.h"

namespace tpc {

/// Everything is done when its call returns.
class HostBackend : public Backend {
 public:
  std::unique_ptr<DeviceMemory> allocate(int64_t bytes, bool host_visible) override;
  bool is_host() const override { return true; }
  void upload(void* device, const void* host, int64_t bytes) override;
  void download(void* host, const void* device, int64_t bytes, DeviceQueueKind queue) override;
  void* host_buffer(int64_t bytes) override;

  size_t num_together(std::span<const LocalStep> steps) const override;
  std::unique_ptr<Kernel> prepare_together(std::span<const LocalStep> steps) override;
  std::unique_ptr<Mark> make_mark(DeviceQueueKind queue) override;

  void begin_step(const StepContext& context) override;
  void run(Segment& segment, bool is_observed) override;
  void wait() override;
  void enter() override {}
  void release_segments() override {}
  void quiesce() override {}

 protected:
  virtual std::unique_ptr<Kernel> prepare_step(const LocalStep& step) = 0;

 private:
  std::deque<std::vector<std::byte>> host_buffers_;
};

}  // namespace tpc

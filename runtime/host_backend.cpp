#include "runtime/host_backend.h"

#include <cstring>

#include "compiler/core/check.h"

namespace tpc {

std::unique_ptr<DeviceMemory> HostBackend::allocate(int64_t bytes, bool /*host_visible*/) {
  return std::make_unique<Arena>(bytes);
}

void HostBackend::upload(void* device, const void* host, int64_t bytes) {
  if (device != host) std::memcpy(device, host, static_cast<size_t>(bytes));
}

void HostBackend::download(void* host, const void* device, int64_t bytes, DeviceQueueKind /*queue*/) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
}

void* HostBackend::host_buffer(int64_t bytes) { return host_buffers_.emplace_back(static_cast<size_t>(bytes)).data(); }

size_t HostBackend::num_together(std::span<const LocalStep> /*steps*/) const { return 1; }

std::unique_ptr<Kernel> HostBackend::prepare_together(std::span<const LocalStep> steps) {
  TPC_CHECK(steps.size() == 1, "{} steps for one kernel", steps.size());
  return prepare_step(steps[0]);
}

std::unique_ptr<Mark> HostBackend::make_mark(DeviceQueueKind /*queue*/) { return nullptr; }

void HostBackend::begin_step(const StepContext& /*context*/) {}

void HostBackend::run(Segment& segment, bool /*is_observed*/) { segment.issue(); }

void HostBackend::wait() {}

}  // namespace tpc

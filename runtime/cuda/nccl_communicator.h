/// Collectives between ranks on GPUs, by NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_queue.h"
#include "runtime/cuda/nccl_world.h"

namespace tpc::cuda {

/// The end of one rank. What is issued goes to `queue`; how a collective becomes calls says compiler/lowering.
class NcclCommunicator final : public Communicator {
 public:
  /// The queue outlives this object. The collectives of all ranks of a world are prepared in the same order.
  NcclCommunicator(NcclOptions options, DeviceQueue& queue);

  std::unique_ptr<Collective> prepare(const CollectiveStep& step) override;
  void use_memory(void* data, int64_t bytes) override { world_.use_memory(data, bytes); }
  void abort() override { world_.abort(); }
  void forget_memory() override { world_.forget_memory(); }

  /// To be called while the host waits, as it does from `since` on: throws when the run has ended elsewhere, when NCCL
  /// reports an error, and when no collective has ended for as long as a rank may be waited for; the next is named
  /// then.
  void poll(std::chrono::steady_clock::time_point since);

 private:
  std::string pending() const;

  NcclWorld world_;
  DeviceQueue& queue_;
  PinnedMemory done_;  // an int64_t: how many collectives of the step have ended, written by the device
  std::unique_ptr<CudaMemory> counts_;  // 1, 2, ...: what is written there
  std::vector<std::string> names_;      // of the collectives of a step
  int64_t last_done_ = -1;
  std::chrono::steady_clock::time_point last_change_;
};

}  // namespace tpc::cuda

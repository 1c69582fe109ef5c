/// Collectives between ranks that are threads of one process: every rank reads its peers' memory directly.
#pragma once

#include "runtime/communicator.h"
#include "runtime/threads/rendezvous.h"

namespace tpc {

/// The end of rank `rank`. Each collective is: meet, read what the peers hold, meet again (all_reduce meets once more
/// in the middle). Sums are taken in the order of the group, for every element and on every member, so all hold the
/// same bits. f32 and bf16 sum and max (bf16 in float, rounded once); copies of any element. Input and output may be
/// the same buffer or overlap. Members that issue different collectives are an InternalError that names both.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(ThreadWorld& world, int64_t rank);

  std::unique_ptr<Collective> prepare(const CollectiveStep& step) override;
  // Peers read this rank's memory where it lies, and a failure wakes those who wait.
  void use_memory(void* /*data*/, int64_t /*bytes*/) override {}
  void forget_memory() override {}
  void abort() override {}

 private:
  ThreadWorld& world_;
  int64_t rank_;
};

}  // namespace tpc

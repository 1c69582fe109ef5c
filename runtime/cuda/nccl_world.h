/// NCCL's communicators of one rank.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tpc::cuda {

struct NcclOptions {
  int64_t rank = 0;
  int64_t world_size = 1;
  /// The same on all ranks; from make_unique_id() on one of them.
  std::string unique_id;
  /// How long a rank may be waited for.
  std::chrono::milliseconds timeout{60'000};
  /// The arena lies in windows of symmetric memory that peers write into directly. Else it is registered.
  bool symmetric_memory = false;
  /// Called while a rank waits: throws when the run has ended elsewhere.
  std::function<void()> check_run;
};

/// The bytes that the ranks of a run meet by.
std::string make_unique_id();

/// Nothing here blocks without an end: calls are polled until the time is over, or the run has ended elsewhere, or NCCL
/// reports an error of its own; what is left is aborted then.
class NcclWorld {
 public:
  /// All ranks make theirs at the same time. Throws DeviceError.
  explicit NcclWorld(NcclOptions options);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  /// Of the ranks in `group`, of which this is number `index`. All ranks ask for their own groups in the same order.
  ncclComm_t communicator_of(const std::vector<int64_t>& group, int64_t index);

  /// Memory that collectives work in; before the first communicator_of().
  void use_memory(void* data, int64_t bytes);
  /// Together with the peers, before the memory is released.
  void forget_memory();

  /// Ends all communicators at once, with what waits in them.
  void abort();

  /// Throws DeviceError unless the call has been taken; waits until it is.
  void check(ncclResult_t status, const char* call, ncclComm_t communicator);
  /// Throws when the run has ended elsewhere, or a communicator has met an error on its own.
  void poll();

  const NcclOptions& options() const { return options_; }

 private:
  struct Member {
    ncclComm_t communicator = nullptr;
    void* registration = nullptr;
    ncclWindow_t window = nullptr;
  };

  void await(ncclComm_t communicator, const char* call);
  void use_memory_in(Member& member);
  bool finish();

  NcclOptions options_;
  std::map<std::vector<int64_t>, Member> members_;  // by group
  ncclComm_t world_ = nullptr;
  void* memory_ = nullptr;
  int64_t memory_bytes_ = 0;
  bool has_failed_ = false;
};

}  // namespace tpc::cuda

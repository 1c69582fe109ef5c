/// One rank's end of a communicator.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fake_cuda/failures.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/meeting_place.h"

/// Stays valid memory after its end, for work that was aborted still looks at it.
struct ncclComm {
  enum class State { kSplitting, kJoining, kReady, kFailed };

  std::string name() const;
  /// Goes as far as it can with its making. kSuccess when it is ready.
  ncclResult_t advance_making();
  /// What a call gets that wants to use it now.
  ncclResult_t check_usable(const char* call);
  /// The first failure counts. `sentence` is told at once.
  void fail(ncclResult_t result, const std::string& sentence);
  ncclResult_t failure() const;
  std::string failure_sentence() const;
  /// Fails when a peer has ended for long enough.
  void look_for_lost_peers();
  /// Work of a communicator that does not block begins when it has been asked for.
  void defer(std::function<void()> issue);
  /// Exchanges a note with all ranks; waits for them.
  std::vector<fake_cuda::Note> exchange(const char* call, const fake_cuda::Note& note);

  fake_cuda::Device* device = nullptr;
  int number = 0;  ///< from 1, on its device
  int rank = 0;
  int num_ranks = 0;
  bool blocking = true;
  std::string meeting_name;
  std::unique_ptr<fake_cuda::MeetingPlace> place;
  std::vector<std::shared_ptr<void>> handles;  ///< of registered memory; an abort takes them with it

  std::atomic<State> state{State::kJoining};
  ncclComm* parent = nullptr;  ///< it is split from, in round `split_round` of the notes, with this color and key
  uint64_t split_round = 0;
  int color = 0;
  int key = 0;

  std::atomic<bool> aborted{false};
  std::atomic<bool> ended{false};  ///< destroyed or aborted
  std::atomic<bool> finalized{false};
  std::string last_error;  ///< guarded by `mutex`, like the three below
  ncclResult_t error = ncclSuccess;
  std::optional<std::chrono::steady_clock::time_point> peer_lost_at;
  std::chrono::steady_clock::time_point looked_for_peers_at;
  mutable std::mutex mutex;

  /// Held by whatever has captured work of this communicator, too.
  std::shared_ptr<void> captured = std::make_shared<char>();

  std::vector<std::function<void()>> deferred;
  int num_asks_left = 0;  ///< until the deferred begins
  std::mt19937_64 random;

  // Batches of operations run one after the other, in the order of their issue.
  std::atomic<uint64_t> num_issued{0};
  std::atomic<uint64_t> num_done{0};
  // Of the batch that runs:
  uint64_t round = 0;
  uint64_t num_collectives = 0;
  std::vector<uint64_t> num_sent;      ///< operations, to each rank
  std::vector<uint64_t> num_received;  ///< from each rank
  uint64_t num_notes = 0;
  std::map<const void*, const void*> registered;  ///< memory, by handle or window; guarded by the machine's mutex
};

namespace fake_cuda {

/// Dies on a handle that is none, or whose communicator has ended.
void check_communicator(const char* call, ncclComm_t communicator);
ncclComm& new_communicator(const ncclConfig_t* config);
/// Waits until it is made.
ncclResult_t finish_making(const char* call, ncclComm& communicator);

/// The sentence of the last call of this thread that failed without a communicator.
std::string& last_nccl_error();

/// What every function of NCCL does first: driver, planted failures.
ncclResult_t before_nccl_call(const char* call, std::optional<Failure>& planted);

}  // namespace fake_cuda

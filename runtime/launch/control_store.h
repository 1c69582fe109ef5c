/// How the processes of a run find each other, agree on small things, and learn that one of them is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/launch/launch_environment.h"
#include "runtime/launch/run_failure.h"
#include "runtime/launch/store_side.h"

namespace tpc {

/// All that the ranks of a run must agree on; each text has at most 1000 characters.
struct StoreIdentity {
  std::string plan_hash;
  /// The options that change what is computed, for people.
  std::string options;
  /// Of this program.
  std::string build;
  /// Version of NCCL; "" where it is not used.
  std::string nccl;
};

/// Rank 0 listens, the others connect. A thread of this object's own watches the connections for the life of the run: a
/// failure of any rank ends the run on all of them, and wakes whoever waits here.
///
/// barrier, broadcast, all_gather and finish are rounds: all ranks call the same ones in the same order, one at a time.
/// `what` names the round in messages, in at most 1000 characters, the same on all ranks. When the patience of any rank
/// ends, the run fails with the names of those that are missing. A round that cannot be done throws, and so does each
/// later one: DeviceError on the one rank that tells the user (see RunFailure::teller), RunEnded on all others.
class ControlStore {
 public:
  /// Returns when all ranks have met. DeviceError: rank 0 cannot listen or was not reached, ranks are missing when
  /// patience.meeting ends (named), or a rank does not fit the others (named with what differs). Connections that are
  /// no rank's are closed and ignored. RunEnded: rank 0 tells.
  ///
  /// `when_stuck`: called when the run has failed and this object still lives after patience.farewell, so that the rank
  /// hangs somewhere; with what it had to tell its user, see fail(). It ends the process.
  using WhenStuck = std::function<void(const std::optional<std::string>& told)>;
  ControlStore(const Launch& launch, const StoreIdentity& identity, StorePatience patience = {},
               WhenStuck when_stuck = {});
  /// A run that neither finished nor failed fails here: this rank left it.
  ~ControlStore();
  ControlStore(const ControlStore&) = delete;
  ControlStore& operator=(const ControlStore&) = delete;

  int64_t rank() const { return rank_; }
  int64_t world_size() const { return world_size_; }

  void barrier(std::string_view what, std::chrono::milliseconds patience);
  /// Returns what rank 0 brought, at most 1 MiB; what the others bring is not looked at.
  std::string broadcast(std::string_view what, std::string bytes, std::chrono::milliseconds patience);
  /// Returns what every rank brought, by rank; at most 64 KiB each.
  std::vector<std::string> all_gather(std::string_view what, std::string bytes, std::chrono::milliseconds patience);
  /// Waits until all ranks are done. From here on a connection that ends is no failure.
  void finish(std::chrono::milliseconds patience);

  /// Ends the run on all ranks: `message` says what failed here. Returns what this rank tells its user: `message`, or
  /// what was the cause when another failure was first; nullopt when another rank tells. Returns when the other ranks
  /// have heard, in at most a few seconds. From any thread; after finish() it does nothing but return `message`.
  std::optional<std::string> fail(std::string message);

  /// Why the run has ended; nullopt while it goes on, and when it has finished. From any thread, at any time.
  std::optional<RunFailure> failure() const { return mailbox_.failure(); }
  /// Throws as a round would, when the run has failed.
  void throw_if_failed() const;

 private:
  std::vector<std::string> meet(Round round, size_t most);
  std::optional<std::string> told_here() const;

  int64_t rank_;
  int64_t world_size_;
  bool starter_tells_deaths_;
  Mailbox mailbox_;
  std::unique_ptr<StoreSide> side_;
  std::thread watch_;
};

}  // namespace tpc

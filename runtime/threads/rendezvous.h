/// Where the threads of a group of ranks meet: a barrier that knows who is missing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/communicator.h"

namespace tpc {

/// What a member of a group is about to do, readable by the others once they have met.
struct Announcement {
  /// `all_reduce of "block0.fc2" (plan step 12)`.
  std::string description;
  /// Hash of all that members must agree on.
  uint64_t signature = 0;
  const void* input = nullptr;
  /// all_reduce: the own reduced block, where the peers take it from.
  const void* block = nullptr;
};

struct RendezvousOptions {
  /// A thread that waits first watches for the others; sensible only when every thread has a core of its own.
  bool spin = false;
  std::chrono::milliseconds timeout{60'000};
};

class Rendezvous {
 public:
  /// `ended` is the world's: set, then wake(), makes every wait throw RunEnded.
  Rendezvous(std::vector<int64_t> ranks, RendezvousOptions options, const std::atomic<bool>& ended);

  /// Returns when all members have arrived as often as member `member` has now. What any member wrote before arriving
  /// is visible to all after. Throws DeviceError, naming who is missing, when the time-out passes; RunEnded when the
  /// run has ended.
  void arrive(size_t member, const Announcement& announcement);

  size_t size() const { return ranks_.size(); }
  const std::vector<int64_t>& ranks() const { return ranks_; }
  /// The latest of `member`. Valid between two arrivals of the caller.
  const Announcement& announced(size_t member) const {
    return *slots_[member].announcement.load(std::memory_order_relaxed);
  }
  void wake();

 private:
  // A cache line each (two, for the prefetcher fetches pairs): a member writes only its own.
  struct alignas(128) Slot {
    std::atomic<uint64_t> arrivals{0};
    std::atomic<const Announcement*> announcement{nullptr};
    // The member's own: how often watching has failed in a row, and how many arrivals it is still left out for that.
    int num_failures = 0;
    int num_unwatched = 0;
  };

  bool have_arrived(uint64_t count) const;
  bool watch(Slot& slot, uint64_t count) const;
  [[noreturn]] void throw_missing(size_t member, uint64_t count) const;

  std::vector<int64_t> ranks_;
  RendezvousOptions options_;
  const std::atomic<bool>& ended_;
  std::unique_ptr<Slot[]> slots_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::atomic<int> sleepers_{0};
};

/// What the ranks of one process share: the meeting places of all groups, and the failure that ended the run.
class ThreadWorld {
 public:
  ThreadWorld(int64_t world_size, RendezvousOptions options);

  int64_t world_size() const { return world_size_; }
  const RendezvousOptions& options() const { return options_; }

  /// The meeting place of the group (created at first use; the same for every member).
  Rendezvous& rendezvous(const std::vector<int64_t>& ranks);
  /// Keeps an announcement for the life of the world, since messages may quote it after its collective is gone.
  Announcement& keep(Announcement announcement);

  /// Ends the run at once on all ranks of this process. The first failure counts: a RunEnded only when it was another
  /// process that ended the run, for in this one it follows the failure.
  void fail(std::exception_ptr failure);
  bool has_failed() const { return ended_.load(std::memory_order_acquire); }
  /// Throws the failure that ended the run, if any.
  void rethrow_failure() const;

 private:
  int64_t world_size_;
  RendezvousOptions options_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::map<std::vector<int64_t>, std::unique_ptr<Rendezvous>> groups_;
  std::deque<Announcement> announcements_;
  std::exception_ptr failure_;
};

}  // namespace tpc

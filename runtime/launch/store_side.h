/// What rank 0's side of a control store and the other ranks' have in common.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "runtime/launch/mailbox.h"
#include "runtime/launch/tcp.h"

namespace tpc {

/// How long things take at most.
struct StorePatience {
  /// Until all ranks have met.
  std::chrono::milliseconds meeting{60'000};
  /// Without a sign of life from a rank, before it counts as gone.
  std::chrono::milliseconds silence{10'000};
  /// For a rank to come back after the run has failed.
  std::chrono::milliseconds farewell{5'000};
};

/// The side of one rank, run by its watching thread.
class StoreSide {
 public:
  virtual ~StoreSide() = default;
  /// Until the run has ended, and the connections are closed. Throws nothing but std::bad_alloc.
  virtual void run() = 0;

  /// Bytes that a rank may bring to a round.
  static constexpr size_t kMostBroadcast = size_t{1} << 20;
  static constexpr size_t kMostGathered = size_t{1} << 16;
  static constexpr size_t kMostFraming = size_t{1} << 13;
};

/// How long this rank waits for what has to come from another process that only has to answer.
constexpr auto kAnswerPatience = std::chrono::seconds(2);

/// When to give signs of life, and for how long this process did not run: a stop from the keyboard, or a machine that
/// slept, is no silence of the peers.
class Heart {
 public:
  explicit Heart(std::chrono::milliseconds silence) : interval_(silence / 4) {}

  /// Call once a turn of the loop: the time for which this process was stopped since the last call, mostly 0.
  Clock::duration stopped(Deadline now) {
    Clock::duration turn = now - std::exchange(last_turn_, now);
    return turn > 2 * interval_ ? turn - interval_ : Clock::duration::zero();
  }
  /// True when it is time for a sign of life.
  bool beats(Deadline now) {
    if (now < next_beat_) return false;
    next_beat_ = now + interval_;
    return true;
  }
  Deadline next_beat() const { return next_beat_; }

 private:
  Clock::duration interval_;
  Deadline last_turn_ = Clock::now();
  Deadline next_beat_ = Clock::now();
};

/// For poll(): whole milliseconds until the time, rounded up, at least 0.
inline int milliseconds_until(Deadline time) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

}  // namespace tpc

/// Where the ranks of one communicator meet: a file in shared memory, so that ranks may be threads or processes.
/// Nothing in here waits; who cannot go on asks again.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fake_cuda {

/// What all ranks must agree on, or one tells the others.
struct Announced {
  int32_t kind = 0;
  int32_t type = 0;
  int32_t op = 0;
  int32_t root = 0;
  uint64_t count = 0;
  uint64_t batch = 0;  ///< how many operations of the communicator came before
};

/// A few numbers that the hosts exchange (ncclCommSplit, ncclCommWindowRegister).
using Note = std::array<uint64_t, 4>;

enum class MemberState : uint32_t { kAbsent, kJoined, kLeft, kAborted };

class MeetingPlace {
 public:
  /// Bytes that a member shows the others at once, and that it sends one of them at once.
  static constexpr uint64_t kShown = 256 << 10;
  static constexpr uint64_t kSent = 64 << 10;

  /// Creates the file unless it is there. Dies when the system gives none.
  MeetingPlace(const std::string& name, int num_ranks);
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  /// `device`: which GPU of which host. Why it cannot join, or "".
  std::string join(int rank, const std::string& device);
  /// All have joined; then nobody needs the file's name.
  bool is_complete();
  /// After is_complete(): two ranks on one GPU, or "".
  std::string shared_device() const;
  std::vector<int> absent() const;

  /// For good; without this rank it will never be complete.
  void leave(int rank, MemberState state);
  /// Nobody else can come.
  void remove_name();
  MemberState state(int rank) const;
  /// Its process has ended.
  bool is_dead(int rank) const;

  // A round of all members. A member may show its next one while others still look at the last.
  bool may_show(uint64_t round) const;
  /// Where to write what is shown: kShown bytes.
  std::byte* own_page(int rank, uint64_t round);
  void show(int rank, uint64_t round, const Announced& announced);
  /// The members that have not shown round `round` yet.
  std::vector<int> not_shown(uint64_t round) const;
  bool all_shown(uint64_t round) const;
  const std::byte* page(int rank, uint64_t round) const;
  const Announced& announced(int rank, uint64_t round) const;
  void seen(int rank, uint64_t round);

  // Notes of the hosts, likewise in rounds.
  bool tell(int rank, uint64_t round, const Note& note);
  std::optional<std::vector<Note>> hear(int rank, uint64_t round);

  /// One direction between two ranks.
  struct Channel {
    std::atomic<uint64_t> send_started{0};
    std::atomic<uint64_t> receive_started{0};
    std::atomic<uint64_t> parts_sent{0};
    std::atomic<uint64_t> parts_received{0};
    Announced sent;
    Announced received;
  };
  Channel& channel(int from, int to);
  /// kSent bytes.
  std::byte* channel_page(int from, int to);

 private:
  struct Member {
    std::atomic<MemberState> state{MemberState::kAbsent};
    std::atomic<int32_t> pid{0};
    char device[64];
    std::atomic<uint64_t> shown{0};
    std::atomic<uint64_t> seen{0};
    std::atomic<uint64_t> told{0};
    std::atomic<uint64_t> heard{0};
    Announced announced[2];
    Note notes[2];
  };
  struct Header {
    std::atomic<int32_t> num_ranks{0};
    std::atomic<int32_t> num_joined{0};
  };

  uint64_t channels_at() const;
  uint64_t pages_at() const;
  uint64_t channel_pages_at() const;
  uint64_t total_bytes() const;
  Header& header() const { return *reinterpret_cast<Header*>(memory_); }
  Member& member(int rank) const;
  size_t pair(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(num_ranks_) + static_cast<size_t>(to);
  }

  std::string name_;
  int num_ranks_;
  std::byte* memory_ = nullptr;
};

/// Removes the files of processes that ended before their communicators were complete.
void remove_stale_meeting_places();
std::string new_meeting_place_name();
bool is_meeting_place_name(const std::string& name);

}  // namespace fake_cuda

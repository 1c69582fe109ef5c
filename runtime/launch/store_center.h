/// Rank 0's side of a control store: it listens, knows who is there, and decides what happened first.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/connection.h"
#include "runtime/launch/hello.h"
#include "runtime/launch/store_side.h"

namespace tpc {

class StoreCenter final : public StoreSide {
 public:
  /// `listener` is closed in a world of one rank. The mailbox outlives the side.
  StoreCenter(Mailbox& mailbox, Hello own, Descriptor listener, StorePatience patience);
  void run() override;

 private:
  // A connection that has not said yet who it is.
  struct Guest {
    Descriptor socket;
    std::string bytes;
    Deadline last_heard;
  };
  // Where all ranks are to meet next, from the first rank's arrival on.
  struct Meeting {
    Round round;
    int64_t first = 0;                              ///< the rank that came first
    int64_t least_patient = 0;                      ///< the rank whose patience ends first
    Deadline deadline;                              ///< when it ends
    std::vector<std::optional<std::string>> bytes;  ///< by rank
    int64_t num_arrived = 0;
  };
  enum class State : uint8_t { kMeeting, kRunning, kClosing };

  int64_t world_size() const { return own_.world_size; }
  void turn();
  void wait_for_events();
  Deadline next_deadline() const;
  void obey(Mailbox::Orders orders);

  void take_guests();
  void hear_guests();
  /// False when the guest is to be sent away, or has become a peer.
  bool hear(Guest& guest);
  void admit(Guest& guest, const HelloReading& reading);
  void refuse(const Guest& guest, Answer::Verdict verdict, const std::string& reason);
  void begin();

  void hear_peers();
  void hear(int64_t rank);
  void lose(int64_t rank);
  void arrive(int64_t rank, Round round);
  void complete_round();
  void send_to_all(Frame::Type type, std::string_view body);

  void check_time(Deadline now);
  void fail_later(RunFailure failure);
  void fail(RunFailure::Kind kind, int64_t rank, std::string message);
  void end(RunFailure failure);
  void start_closing();
  std::string missing_at_meeting() const;

  Mailbox& mailbox_;
  Hello own_;
  Descriptor listener_;
  std::string address_;
  StorePatience patience_;
  Heart heart_;
  State state_ = State::kMeeting;
  Deadline meeting_deadline_;
  Deadline closing_deadline_;
  std::vector<Guest> guests_;
  std::vector<std::unique_ptr<Connection>> peers_;  // by rank; none for rank 0 and those not there
  std::vector<int64_t> ready_;                      // ranks whose connections have something to read or room to write
  int64_t num_peers_ = 0;
  std::optional<Meeting> round_;
  std::optional<RunFailure> unsettled_;
  Deadline settled_at_;
  bool is_done_ = false;
};

/// "rank 3", "ranks 1, 4-7 and 9"; at most eight parts, then how many more.
std::string rank_list(const std::vector<int64_t>& ranks);

}  // namespace tpc

/// The side of a control store of every rank but 0: one connection, to rank 0.
#pragma once

#include <memory>
#include <optional>

#include "runtime/launch/connection.h"
#include "runtime/launch/hello.h"
#include "runtime/launch/meeting_point.h"
#include "runtime/launch/store_side.h"

namespace tpc {

class StoreMember final : public StoreSide {
 public:
  /// Tries to reach rank 0, again and again, until it answers: it may start later, and the run before this one may
  /// still be there. DeviceError: it was not reached in time, or refuses this rank. The mailbox outlives the side.
  StoreMember(Mailbox& mailbox, const Hello& own, const MeetingPoint& point, StorePatience patience);
  void run() override;

 private:
  void turn();
  void obey(Mailbox::Orders orders);
  void hear();
  void check_time(Deadline now);
  void lose_rank_0(RunFailure::Kind kind, std::string message);
  void end(RunFailure failure);

  Mailbox& mailbox_;
  StorePatience patience_;
  Heart heart_;
  std::unique_ptr<Connection> center_;
  // When rank 0 must have answered: to the hello, then to each arrival.
  std::optional<Deadline> answer_deadline_;
  bool is_finishing_ = false;
  // What this rank said of itself; rank 0 decides whether it was the first.
  std::optional<RunFailure> own_failure_;
  Deadline own_failure_deadline_;
  bool is_done_ = false;
};

}  // namespace tpc

/// Between the threads that call a control store and the one that watches its connections.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/descriptor.h"
#include "runtime/launch/frame.h"
#include "runtime/launch/run_failure.h"

namespace tpc {

class Mailbox {
 public:
  /// Throws DeviceError when the system gives no pipe.
  Mailbox() : pipe_(make_pipe()) {}

  // For those that call. Waits end by what the watching thread says, which has a deadline for all it does.

  void post(Round round);
  void post(RunFailure failure);
  void post_stop();
  /// Until all ranks have met, the result of the posted round has come, or the run has ended: then false, or nullopt.
  bool wait_for_welcome();
  std::optional<std::vector<std::string>> wait_for_result();
  /// Until the run has ended and its connections are closed.
  void wait_for_close();
  /// Of the watching thread: false when nobody has posted a stop after that time.
  bool wait_for_stop(std::chrono::milliseconds patience);
  std::optional<RunFailure> failure() const;
  bool is_closed() const;

  // For the thread that watches.

  struct Orders {
    std::optional<Round> round;
    std::optional<RunFailure> failure;
    bool stop = false;
  };
  /// Readable when something was posted.
  int descriptor() const { return pipe_.read_end.number(); }
  Orders take();
  void welcome();
  void give(std::vector<std::string> result);
  /// The first failure stays.
  void end(RunFailure failure);
  void close();

 private:
  void wake() const;

  Pipe pipe_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Orders orders_;
  bool is_welcome_ = false;
  bool is_closed_ = false;
  bool is_stopped_ = false;
  std::optional<std::vector<std::string>> result_;
  std::optional<RunFailure> failure_;
};

}  // namespace tpc

/// One end of a connection between two ranks, once they know each other. Never waits.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/launch/frame.h"
#include "runtime/launch/tcp.h"

namespace tpc {

class Connection {
 public:
  /// `received`: what has come already. Bodies of frames have at most `longest` bytes.
  Connection(Descriptor socket, size_t longest, std::string_view received = {});

  int descriptor() const { return socket_.number(); }
  /// What to wait for with poll().
  short events() const;

  /// Sends when the socket takes it; many connections may share the bytes.
  void send(std::shared_ptr<const std::string> bytes);
  void send(Frame::Type type, std::string_view body = {});
  /// No more will be sent: the peer sees the end after the last byte.
  void end_sending();

  /// Reads and writes what can be now. False when the connection has ended, or brought what is no frame; what came
  /// before can still be taken.
  bool exchange();
  std::optional<Frame> next() { return reader_.next(); }

  /// When the last byte came. A process that was stopped moves it on by the time that it cannot have heard.
  Deadline last_heard() const { return last_heard_; }
  void forgive(Clock::duration stopped) { last_heard_ += stopped; }

 private:
  bool receive();
  bool flush();

  Descriptor socket_;
  FrameReader reader_;
  std::deque<std::shared_ptr<const std::string>> unsent_;
  size_t sent_of_first_ = 0;
  bool is_ending_ = false;
  bool is_shut_ = false;
  Deadline last_heard_ = Clock::now();
};

}  // namespace tpc

#include "runtime/launch/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace tpc {

Connection::Connection(Descriptor socket, size_t longest, std::string_view received)
    : socket_(std::move(socket)), reader_(longest) {
  reader_.append(received);
}

short Connection::events() const {
  bool has_work = !unsent_.empty() || (is_ending_ && !is_shut_);
  return static_cast<short>(has_work ? POLLIN | POLLOUT : POLLIN);
}

void Connection::send(std::shared_ptr<const std::string> bytes) { unsent_.push_back(std::move(bytes)); }

void Connection::send(Frame::Type type, std::string_view body) {
  send(std::make_shared<const std::string>(encode_frame(type, body)));
}

void Connection::end_sending() { is_ending_ = true; }

bool Connection::exchange() {
  // What the peer said before it went is read even when it can be sent no more.
  bool is_sending = flush();
  return receive() && is_sending && !reader_.is_broken();
}

bool Connection::receive() {
  std::array<char, 65536> buffer;
  while (true) {
    ssize_t count = recv(socket_.number(), buffer.data(), buffer.size(), 0);
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    reader_.append({buffer.data(), static_cast<size_t>(count)});
    last_heard_ = Clock::now();
  }
}

bool Connection::flush() {
  while (!unsent_.empty()) {
    std::string_view left = std::string_view(*unsent_.front()).substr(sent_of_first_);
    ssize_t count = ::send(socket_.number(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    sent_of_first_ += static_cast<size_t>(count);
    if (static_cast<size_t>(count) < left.size()) return true;
    unsent_.pop_front();
    sent_of_first_ = 0;
  }
  if (is_ending_ && !is_shut_) {
    shutdown(socket_.number(), SHUT_WR);
    is_shut_ = true;
  }
  return true;
}

}  // namespace tpc

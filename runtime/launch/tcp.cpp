#include "runtime/launch/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "compiler/core/check.h"

namespace tpc {
namespace {

constexpr int kBacklog = 4096;
constexpr auto kPortPatience = std::chrono::seconds(1);

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

struct Found {
  int error = 0;
  std::vector<Address> addresses;
};

Found look_up(const MeetingPoint& point, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  Found found;
  found.error = getaddrinfo(point.host.c_str(), std::to_string(point.port).c_str(), &hints, &list);
  if (found.error != 0) return found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    found.addresses.push_back(address);
  }
  freeaddrinfo(list);
  return found;
}

/// The system looks names up without a deadline, so a thread of its own waits for it; it may stay behind.
std::vector<Address> addresses_of(const MeetingPoint& point, Deadline deadline) {
  Found found = look_up(point, AI_NUMERICHOST);
  if (found.error == 0) return found.addresses;
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    bool is_done = false;
    Found found;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, point] {
    Found result = look_up(point, 0);
    // Told under the lock: who waits may leave, and end the process, as soon as it is let go.
    std::lock_guard lock(shared->mutex);
    shared->found = std::move(result);
    shared->is_done = true;
    shared->done.notify_all();
  }).detach();
  std::unique_lock lock(shared->mutex);
  if (!shared->done.wait_until(lock, deadline, [&] { return shared->is_done; })) {
    throw DeviceError(fmt::format("looking up host \"{}\" takes too long", point.host));
  }
  if (shared->found.error != 0) {
    throw DeviceError(fmt::format("there is no host \"{}\": {}", point.host, gai_strerror(shared->found.error)));
  }
  return shared->found.addresses;
}

Descriptor new_socket(const Address& address) {
  return Descriptor(socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Small messages leave at once.
void send_without_delay(const Descriptor& socket) {
  int on = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// 0, or errno.
int try_to_listen(const Address& address, Descriptor& listener) {
  Descriptor socket = new_socket(address);
  if (!socket.is_open()) return errno;
  // Connections of a run that has ended do not keep the next one from the port.
  int on = 1;
  setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.number(), address.get(), address.length) != 0) return errno;
  if (listen(socket.number(), kBacklog) != 0) return errno;
  listener = std::move(socket);
  return 0;
}

/// A port of the range from which the system takes the ports of those who connect can be given to the very socket that
/// connects to it while nobody listens; it then talks to itself, and keeps rank 0 from the port.
bool is_connected_to_itself(const Descriptor& socket) {
  Address own, other;
  own.length = other.length = sizeof own.storage;
  return getsockname(socket.number(), own.get(), &own.length) == 0 &&
         getpeername(socket.number(), other.get(), &other.length) == 0 && own.length == other.length &&
         std::memcmp(&own.storage, &other.storage, own.length) == 0;
}

/// Waits until the socket is ready for `events` or has failed; false when the deadline passes first.
bool wait_for(const Descriptor& socket, short events, Deadline deadline) {
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry{socket.number(), events, 0};
    int count = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000)));
    if (count > 0) return true;
    if (left.count() <= 0) return false;
  }
}

bool is_passing(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Descriptor listen_at(const MeetingPoint& point, Deadline deadline) {
  std::vector<Address> addresses = addresses_of(point, deadline);
  Deadline patience = std::min(deadline, Clock::now() + kPortPatience);
  int error = 0;
  while (true) {
    bool is_taken = false;
    for (const Address& address : addresses) {
      Descriptor listener;
      error = try_to_listen(address, listener);
      if (error == 0) return listener;
      is_taken = is_taken || error == EADDRINUSE;
    }
    if (is_taken) error = EADDRINUSE;
    if (!is_taken || Clock::now() >= patience) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (error == EADDRINUSE) {
    throw DeviceError(
        fmt::format("rank 0 cannot listen at {}: another program has the port; TPC_MEETING=host:port "
                    "names another",
                    to_string(point)));
  }
  if (error == EADDRNOTAVAIL) {
    throw DeviceError(
        fmt::format("rank 0 cannot listen at {}: that is no address of the host on which it runs", to_string(point)));
  }
  throw DeviceError(fmt::format("rank 0 cannot listen at {}: {}", to_string(point), std::strerror(error)));
}

Descriptor listen_on_this_machine(int& port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  v4->sin_family = AF_INET;
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.length = sizeof(sockaddr_in);
  Descriptor listener;
  int error = try_to_listen(address, listener);
  if (error == 0 && getsockname(listener.number(), address.get(), &address.length) != 0) error = errno;
  if (error != 0) throw DeviceError(fmt::format("no port of 127.0.0.1 can be listened at: {}", std::strerror(error)));
  port = ntohs(v4->sin_port);
  return listener;
}

Descriptor inherited_listener(int number) {
  int is_listening = 0;
  socklen_t length = sizeof is_listening;
  bool is_good = getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &length) == 0 && is_listening != 0 &&
                 fcntl(number, F_SETFD, FD_CLOEXEC) == 0 && fcntl(number, F_SETFL, O_NONBLOCK) == 0;
  if (!is_good) {
    throw DeviceError(
        fmt::format("TPC_LISTENER={} is no socket that listens; tprun --ranks sets it for its own ranks "
                    "only",
                    number));
  }
  return Descriptor(number);
}

Descriptor accept_from(const Descriptor& listener) {
  Descriptor socket(accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) {
    send_without_delay(socket);
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
    throw DeviceError(fmt::format("rank 0 cannot take the connections of all ranks: {} (ulimit -n raises the limit)",
                                  std::strerror(errno)));
  }
  return socket;
}

Descriptor connect_to(const MeetingPoint& point, Deadline deadline, std::string& reason) {
  for (const Address& address : addresses_of(point, deadline)) {
    Descriptor socket = new_socket(address);
    if (!socket.is_open()) {
      reason = std::strerror(errno);
      continue;
    }
    send_without_delay(socket);
    int error = connect(socket.number(), address.get(), address.length) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (!wait_for(socket, POLLOUT, deadline)) {
        reason = "no answer";
        continue;
      }
      socklen_t length = sizeof error;
      getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0 && !is_connected_to_itself(socket)) return socket;
    if (error == 0) error = ECONNREFUSED;
    reason = std::strerror(error);
  }
  return {};
}

bool send_all(const Descriptor& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    ssize_t count = send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if ((count < 0 && !is_passing(errno)) || !wait_for(socket, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool receive_exactly(const Descriptor& socket, size_t count, std::string& bytes, Deadline deadline) {
  bytes.resize(count);
  size_t received = 0;
  while (received < count) {
    ssize_t now = recv(socket.number(), bytes.data() + received, count - received, 0);
    if (now > 0) {
      received += static_cast<size_t>(now);
    } else if (now == 0 || !is_passing(errno) || !wait_for(socket, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

std::string listening_address(const Descriptor& listener) {
  Address address;
  address.length = sizeof address.storage;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  bool is_known = getsockname(listener.number(), address.get(), &address.length) == 0 &&
                  getnameinfo(address.get(), address.length, host.data(), host.size(), port.data(), port.size(),
                              NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  if (!is_known) return "?";
  return fmt::format("{}:{}", address.storage.ss_family == AF_INET6 ? fmt::format("[{}]", host.data()) : host.data(),
                     port.data());
}

}  // namespace tpc

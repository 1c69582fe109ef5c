/// Ranks with a control store each, as threads; and one that speaks to rank 0 by bare bytes.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/launch/control_store.h"
#include "runtime/launch/hello.h"
#include "runtime/launch/tcp.h"
#include "runtime/launch/wire.h"

namespace tpc::testing {

using std::chrono_literals::operator""ms;

/// Long enough for a busy machine under sanitizers.
constexpr auto kLong = 60'000ms;

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A world whose port is listened at already, so that tests that run at once do not meet.
class TestWorld {
 public:
  explicit TestWorld(int64_t world_size) : world_size_(world_size), listener_(listen_on_this_machine(port_)) {}

  Launch launch(int64_t rank) const {
    Launch launch;
    launch.rank = launch.local_rank = rank;
    launch.world_size = launch.local_size = world_size_;
    launch.source = "a test";
    launch.meeting = point();
    launch.run_id = "test";
    // The store closes its own.
    if (rank == 0) launch.listener = fcntl(listener_.number(), F_DUPFD_CLOEXEC, 0);
    return launch;
  }
  MeetingPoint point() const { return {"127.0.0.1", port_}; }
  int64_t world_size() const { return world_size_; }
  /// Nobody listens any more but a store that does.
  void close() { listener_.close(); }

 private:
  int64_t world_size_;
  int port_ = 0;
  Descriptor listener_;
};

inline Hello hello_of(const TestWorld& world, int64_t rank) {
  return {rank, world.world_size(), "test", 0, "plan", "options", "build", ""};
}

/// What became of a rank: "done", "heard of it" (RunEnded), or the message that it tells.
using Fates = std::vector<std::string>;

inline std::string fate_of(const std::function<void()>& body) {
  try {
    body();
    return "done";
  } catch (const RunEnded&) {
    return "heard of it";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

/// Runs body(rank) for every rank in `ranks`, each in a thread of its own.
inline Fates run_threads(const std::vector<int64_t>& ranks, const std::function<void(int64_t)>& body) {
  Fates fates(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { fates[i] = fate_of([&] { body(ranks[i]); }); });
  }
  for (std::thread& thread : threads) thread.join();
  return fates;
}

/// Runs body(store) on every rank of the world.
inline Fates run_stores(TestWorld& world, const std::function<void(ControlStore&)>& body, StorePatience patience = {}) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < world.world_size(); ++rank) ranks.push_back(rank);
  return run_threads(ranks, [&](int64_t rank) {
    ControlStore store(world.launch(rank), {"plan", "options", "build", ""}, patience);
    body(store);
  });
}

/// A rank that says a hello and then what it is told to.
class BareRank {
 public:
  BareRank(const TestWorld& world, const Hello& hello) : BareRank(world) { say(encode_hello(hello)); }
  explicit BareRank(const TestWorld& world) {
    std::string reason;
    socket_ = connect_to(world.point(), Clock::now() + kLong, reason);
    REQUIRE_MESSAGE(socket_.is_open(), reason);
  }

  void say(std::string_view bytes) { send_all(socket_, bytes, Clock::now() + kLong); }
  Answer hear_answer() {
    Answer answer;
    std::string bytes;
    REQUIRE(receive_exactly(socket_, kAnswerHead, bytes, Clock::now() + kLong));
    std::optional<size_t> length = read_answer_head(bytes, answer);
    REQUIRE(length.has_value());
    REQUIRE(receive_exactly(socket_, *length, answer.reason, Clock::now() + kLong));
    return answer;
  }
  /// Skips what comes before a frame of this type.
  void hear(Frame::Type type) {
    while (true) {
      std::string head, body;
      REQUIRE(receive_exactly(socket_, 5, head, Clock::now() + kLong));
      WireReader reader(head);
      size_t length = reader.u32();
      REQUIRE(receive_exactly(socket_, length, body, Clock::now() + kLong));
      if (reader.byte() == static_cast<uint8_t>(type)) return;
    }
  }
  /// Until rank 0 closes the connection; what came before.
  std::string hear_end() {
    std::string all, byte;
    while (receive_exactly(socket_, 1, byte, Clock::now() + kLong)) all += byte;
    return all;
  }
  void close() { socket_.close(); }

 private:
  Descriptor socket_;
};

}  // namespace tpc::testing

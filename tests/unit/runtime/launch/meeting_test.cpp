// How ranks find rank 0, who does not fit, and who has no business there.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <random>

#include "tests/unit/runtime/launch/store_team.h"

namespace tpc {
namespace {

using namespace testing;

void meet_and_finish(const Launch& launch, const StoreIdentity& identity = {"plan", "options", "build", ""},
                     StorePatience patience = {}) {
  ControlStore store(launch, identity, patience);
  store.barrier("all", kLong);
  store.finish(kLong);
}

std::string arrival(Round::Kind kind, const std::string& what) {
  return encode_frame(Frame::Type::kArrival, encode_round({kind, what, kLong, ""}));
}

TEST_CASE("meeting: strangers and their garbage are ignored") {
  TestWorld world(3);
  std::mt19937 random(5);
  std::vector<BareRank> strangers;
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "tpcstorf", "", "tpcst"}) {
    strangers.emplace_back(world);
    strangers.back().say(text);
  }
  // A hello whose length cannot be.
  strangers.emplace_back(world);
  strangers.back().say(std::string("tpcstore\1\0\0\0\xff\xff\xff\xff", 16));
  for (int i = 0; i < 20; ++i) {
    std::string garbage(300, ' ');
    for (char& c : garbage) c = static_cast<char>(random());
    strangers.emplace_back(world);
    strangers.back().say(garbage);
  }
  CHECK(run_threads({0, 1, 2}, [&](int64_t rank) { meet_and_finish(world.launch(rank)); }) == Fates(3, "done"));
  for (BareRank& stranger : strangers) CHECK(stranger.hear_end().empty());
}

TEST_CASE("meeting: a hello may come byte by byte") {
  TestWorld world(2);
  Fates fates = run_threads({0, 1}, [&](int64_t rank) {
    if (rank == 0) return meet_and_finish(world.launch(0));
    BareRank slow(world);
    auto say_slowly = [&](const std::string& bytes) {
      for (char c : bytes) {
        slow.say({&c, 1});
        std::this_thread::sleep_for(1ms);
      }
    };
    say_slowly(encode_hello(hello_of(world, 1)));
    CHECK(slow.hear_answer().verdict == Answer::Verdict::kAccepted);
    slow.hear(Frame::Type::kWelcome);
    say_slowly(arrival(Round::Kind::kBarrier, "all"));
    slow.hear(Frame::Type::kResult);
    say_slowly(arrival(Round::Kind::kFinish, ""));
    slow.hear_end();
  });
  CHECK(fates == Fates(2, "done"));
}

TEST_CASE("meeting: rank 0 may come last") {
  int port = 0;
  listen_on_this_machine(port).close();
  Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
    if (rank == 0) std::this_thread::sleep_for(300ms);
    Launch launch;
    launch.rank = rank;
    launch.world_size = 3;
    launch.meeting = MeetingPoint{"localhost", port};
    meet_and_finish(launch);
  });
  CHECK(fates == Fates(3, "done"));
}

TEST_CASE("meeting: who does not fit is named with what differs") {
  struct Case {
    std::function<void(Launch&, StoreIdentity&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Launch&, StoreIdentity& identity) { identity.plan_hash = "other"; }, "rank 2 has another plan than rank 0"},
      {[](Launch&, StoreIdentity& identity) { identity.options = "--seed 3"; },
       "rank 2 runs with --seed 3, rank 0 with --seed 0"},
      {[](Launch&, StoreIdentity& identity) { identity.build = "0.2.0"; },
       "rank 2 is of another build (0.2.0; rank 0: 0.1.0)"},
      {[](Launch&, StoreIdentity& identity) { identity.nccl = "2.27.3"; }, "NCCL 2.27.3 on rank 2, 2.28.9 on rank 0"},
      {[](Launch&, StoreIdentity& identity) { identity.nccl = ""; }, "NCCL none on rank 2, 2.28.9 on rank 0"},
      {[](Launch& launch, StoreIdentity&) { launch.world_size = 4; }, "rank 2 counts 4 ranks, rank 0 counts 3"},
      {[](Launch& launch, StoreIdentity&) { launch.rank = 1; }, "two processes say that they are rank 1"}};
  for (const Case& c : cases) {
    CAPTURE(c.message);
    TestWorld world(3);
    Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
      Launch launch = world.launch(rank);
      StoreIdentity identity{"plan", "--seed 0", "0.1.0", "2.28.9"};
      if (rank == 2) c.change(launch, identity);
      // The others are there first.
      if (rank == 2) std::this_thread::sleep_for(100ms);
      meet_and_finish(launch, identity);
    });
    CHECK(fates[0] == c.message);
    bool is_refused = fates[1] == "heard of it" && fates[2] == "rank 0 refuses this process: " + c.message;
    // Which of two with the same rank comes first is open.
    bool is_other = fates[2] == "heard of it" && fates[1] == "rank 0 refuses this process: " + c.message;
    CHECK((is_refused || (c.message.starts_with("two") && is_other)));
  }
}

TEST_CASE("meeting: another protocol is another build, an impossible rank is none") {
  for (bool is_other_protocol : {true, false}) {
    TestWorld world(2);
    Fates fates = run_threads({0, 1}, [&](int64_t rank) {
      if (rank == 0) return meet_and_finish(world.launch(0));
      std::string bytes = encode_hello(hello_of(world, is_other_protocol ? 1 : 7));
      if (is_other_protocol) bytes[8] = 9;
      BareRank other(world);
      other.say(bytes);
      CHECK(other.hear_answer().verdict == Answer::Verdict::kRefused);
    });
    CHECK(fates[0] == (is_other_protocol
                           ? "rank 1 is of another build (its control store is of version 9, rank 0's of 2)"
                           : "a process says that it is rank 7 of 2"));
  }
}

TEST_CASE("meeting: there is one rank 0") {
  TestWorld world(2);
  Fates fates = run_threads({0, 1}, [&](int64_t rank) {
    if (rank == 0) return meet_and_finish(world.launch(0));
    BareRank second(world, hello_of(world, 0));
    CHECK(second.hear_answer().reason == "two processes say that they are rank 0");
  });
  CHECK(fates[0] == "two processes say that they are rank 0");
}

TEST_CASE("meeting: a rank of another run is sent away, and waits for its own rank 0") {
  TestWorld world(2);
  Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
    if (rank < 2) {
      if (rank == 1) std::this_thread::sleep_for(300ms);
      return meet_and_finish(world.launch(rank));
    }
    Launch launch = world.launch(1);
    launch.restart = 1;
    // Its rank 0 never comes; the first run ends before, and with it who listens.
    meet_and_finish(launch, {"plan", "options", "build", ""}, {200ms, kLong});
  });
  CHECK(fates[0] == "done");
  CHECK(fates[1] == "done");
  CHECK(fates[2] == fmt::format("rank 1 did not reach rank 0 at {} in 0.2 s: rank 0 at {} is of run \"test\", start 0",
                                to_string(world.point()), to_string(world.point())));
}

TEST_CASE("meeting: ranks that do not come are named") {
  TestWorld world(6);
  Fates fates = run_threads({0, 3}, [&](int64_t rank) {
    meet_and_finish(world.launch(rank), {"plan", "options", "build", ""}, {rank == 0 ? 300ms : kLong, kLong});
  });
  CHECK(fates[0] == fmt::format("ranks 1, 2, 4 and 5 did not come to rank 0 at {} in 0.3 s", to_string(world.point())));
  CHECK(fates[1] == "heard of it");
}

TEST_CASE("meeting: a rank that dies before all are there ends the meeting") {
  TestWorld world(3);
  Fates fates = run_threads({0, 1}, [&](int64_t rank) {
    if (rank == 0) return meet_and_finish(world.launch(0), {"plan", "options", "build", ""}, {kLong, kLong});
    BareRank dying(world, hello_of(world, 1));
    dying.hear_answer();
  });
  CHECK(fates[0] == "rank 1 has died (its connection to rank 0 broke)");
}

TEST_CASE("meeting: rank 0 that does not come is told with why") {
  int port = 0;
  listen_on_this_machine(port).close();
  Launch launch;
  launch.rank = 1;
  launch.world_size = 2;
  launch.meeting = MeetingPoint{"127.0.0.1", port};
  CHECK(fate_of([&] {
          ControlStore(launch, {}, {100ms, kLong});
        }) == fmt::format("rank 1 did not reach rank 0 at 127.0.0.1:{} in 0.1 s: Connection refused", port));
  launch.meeting = MeetingPoint{"no-such-host.invalid", port};
  std::string fate = fate_of([&] { ControlStore(launch, {}, {5000ms, kLong}); });
  bool is_told = holds(fate, "there is no host \"no-such-host.invalid\"") || holds(fate, "takes too long");
  CHECK_MESSAGE(is_told, fate);
}

TEST_CASE("meeting: another program at the meeting point is told") {
  TestWorld world(2);
  Fates fates = run_threads({0, 1}, [&](int64_t rank) {
    if (rank == 1) {
      meet_and_finish(world.launch(1), {"plan", "options", "build", ""}, {300ms, kLong});
      return;
    }
    Descriptor listener(world.launch(0).listener);
    Deadline end = Clock::now() + 600ms;
    while (Clock::now() < end) {
      Descriptor guest = accept_from(listener);
      if (guest.is_open()) send_all(guest, "220 mail.example.org ESMTP ready", Clock::now() + kLong);
      std::this_thread::sleep_for(5ms);
    }
  });
  CHECK(holds(fates[1], "in 0.3 s: another program listens there; TPC_MEETING=host:port names another place"));
}

TEST_CASE("meeting: a port that is taken, an address of another host, a listener that is none") {
  int port = 0;
  Descriptor taken = listen_on_this_machine(port);
  Launch launch;
  launch.world_size = 2;
  launch.meeting = MeetingPoint{"127.0.0.1", port};
  CHECK(fate_of([&] { ControlStore(launch, {}); }) ==
        fmt::format("rank 0 cannot listen at 127.0.0.1:{}: another program has the port; TPC_MEETING=host:port names "
                    "another",
                    port));
  launch.meeting = MeetingPoint{"192.0.2.1", port};
  CHECK(holds(fate_of([&] { ControlStore(launch, {}); }), "that is no address of the host on which it runs"));
  launch.listener = 1;
  CHECK(holds(fate_of([&] { ControlStore(launch, {}); }), "TPC_LISTENER=1 is no socket that listens"));
}

TEST_CASE("meeting: the port is free again as soon as all have met") {
  int port = 0;
  listen_on_this_machine(port).close();
  for (int run = 0; run < 3; ++run) {
    Fates fates = run_threads({0, 1}, [&](int64_t rank) {
      Launch launch;
      launch.rank = rank;
      launch.world_size = 2;
      launch.meeting = MeetingPoint{"127.0.0.1", port};
      ControlStore store(launch, {"plan", "options", "build", ""});
      if (rank == 0) CHECK(listen_at(*launch.meeting, Clock::now()).is_open());
      store.finish(kLong);
    });
    CHECK(fates == Fates(2, "done"));
  }
}

TEST_CASE("meeting: addresses of version 6") {
  Descriptor probe(socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  if (!probe.is_open() || bind(probe.number(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) != 0) {
    MESSAGE("this machine has no ::1");
    return;
  }
  int port = 0;
  listen_on_this_machine(port).close();
  Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
    Launch launch;
    launch.rank = rank;
    launch.world_size = 3;
    launch.meeting = MeetingPoint{"::1", port};
    meet_and_finish(launch);
  });
  CHECK(fates == Fates(3, "done"));
}

TEST_CASE("meeting: 1024 ranks") {
  TestWorld world(1024);
  std::thread others([&] {
    std::vector<BareRank> ranks;
    for (int64_t rank = 1; rank < 1024; ++rank) ranks.emplace_back(world, hello_of(world, rank));
    for (BareRank& rank : ranks) rank.hear_answer();
    for (BareRank& rank : ranks) rank.hear(Frame::Type::kWelcome);
    for (BareRank& rank : ranks) rank.say(arrival(Round::Kind::kBarrier, "all"));
    for (BareRank& rank : ranks) rank.hear(Frame::Type::kResult);
    for (BareRank& rank : ranks) rank.say(arrival(Round::Kind::kFinish, ""));
    for (BareRank& rank : ranks) rank.hear_end();
  });
  CHECK(fate_of([&] { meet_and_finish(world.launch(0)); }) == "done");
  others.join();
}

}  // namespace
}  // namespace tpc

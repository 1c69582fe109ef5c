// Runs whose ranks meet, agree and end, and the ways in which they do not.
#include "runtime/launch/control_store.h"

#include <atomic>

#include "runtime/launch/store_center.h"
#include "tests/unit/runtime/launch/store_team.h"

namespace tpc {
namespace {

using namespace testing;

double seconds_since(Deadline start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

TEST_CASE("store: rounds give every rank what all of them brought") {
  for (int64_t size : {1, 2, 5, 64}) {
    CAPTURE(size);
    TestWorld world(size);
    std::atomic<int> wrong{0};
    Fates fates = run_stores(world, [&](ControlStore& store) {
      std::string id = store.broadcast("id", fmt::format("from {}", store.rank()), kLong);
      if (id != "from 0") ++wrong;
      for (int step = 0; step < 3; ++step) {
        std::vector<std::string> all = store.all_gather(
            "values", std::string(static_cast<size_t>(store.rank()) * 3, static_cast<char>('a' + step)), kLong);
        if (static_cast<int64_t>(all.size()) != store.world_size()) ++wrong;
        for (size_t r = 0; r < all.size(); ++r) {
          if (all[r] != std::string(r * 3, static_cast<char>('a' + step))) ++wrong;
        }
        store.barrier("step", kLong);
      }
      store.finish(kLong);
      if (store.failure()) ++wrong;
    });
    CHECK(fates == Fates(static_cast<size_t>(size), "done"));
    CHECK(wrong == 0);
  }
}

TEST_CASE("store: nobody leaves a barrier before all have come") {
  TestWorld world(8);
  std::atomic<int> arrived{0}, early{0};
  run_stores(world, [&](ControlStore& store) {
    for (int step = 1; step <= 20; ++step) {
      ++arrived;
      store.barrier("step", kLong);
      if (arrived < 8 * step) ++early;
    }
    store.finish(kLong);
  });
  CHECK(early == 0);
}

TEST_CASE("store: the largest values that are allowed arrive") {
  TestWorld world(3);
  std::string large(size_t{1} << 20, 'x');
  Fates fates = run_stores(world, [&](ControlStore& store) {
    if (store.broadcast("large", large, kLong) != large) throw DeviceError("another broadcast");
    std::string part = large.substr(0, size_t{1} << 16);
    for (const std::string& text : store.all_gather("parts", part, kLong)) {
      if (text != part) throw DeviceError("another part");
    }
    CHECK_THROWS_AS(store.all_gather("too large", part + "x", kLong), InternalError);
    store.finish(kLong);
  });
  CHECK(fates == Fates(3, "done"));
}

TEST_CASE("store: a failure of any rank ends the run on all, and one tells") {
  for (int64_t failing : {0, 2}) {
    TestWorld world(4);
    auto start = Clock::now();
    std::atomic<int> told{0};
    Fates fates = run_stores(world, [&](ControlStore& store) {
      store.barrier("start", kLong);
      if (store.rank() == failing) {
        if (store.fail("out of paper")) ++told;
        throw RunEnded();
      }
      try {
        store.barrier("never", kLong);
      } catch (const RunEnded&) {
        CHECK(store.failure() == RunFailure{RunFailure::Kind::kFailed, failing, failing, "out of paper"});
        CHECK_THROWS_AS(store.barrier("after", kLong), RunEnded);
        CHECK_FALSE(store.fail("late"));
        throw;
      }
    });
    CHECK(fates == Fates(4, "heard of it"));
    CHECK(told == 1);
    CHECK(seconds_since(start) < 30);
  }
}

TEST_CASE("store: of many failures at once one is the cause, the same on all ranks") {
  TestWorld world(6);
  std::atomic<int> first{0};
  std::vector<std::string> seen(6);
  run_stores(world, [&](ControlStore& store) {
    store.barrier("start", kLong);
    if (store.fail(fmt::format("failure of {}", store.rank()))) ++first;
    seen[static_cast<size_t>(store.rank())] = store.failure()->message;
  });
  CHECK(first == 1);
  CHECK(seen == std::vector<std::string>(6, seen[0]));
}

TEST_CASE("store: a rank whose connection breaks has died, and rank 0 tells") {
  TestWorld world(3);
  Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
    if (rank == 2) {
      BareRank dying(world, hello_of(world, 2));
      dying.hear_answer();
      dying.hear(Frame::Type::kWelcome);
      return;
    }
    ControlStore store(world.launch(rank), {"plan", "options", "build", ""}, {kLong, kLong});
    store.barrier("never", kLong);
  });
  CHECK(fates == Fates{"rank 2 has died (its connection to rank 0 broke)", "heard of it", "done"});
}

TEST_CASE("store: under a starter that tells deaths no rank does") {
  TestWorld world(2);
  Fates fates = run_threads({0, 1}, [&](int64_t rank) {
    Launch launch = world.launch(rank);
    launch.source = "tprun --ranks";
    if (rank == 1) {
      BareRank dying(world, hello_of(world, 1));
      dying.hear_answer();
      return;
    }
    ControlStore store(launch, {"plan", "options", "build", ""}, {kLong, kLong});
    store.barrier("never", kLong);
  });
  CHECK(fates == Fates{"heard of it", "done"});
}

TEST_CASE("store: a death is the cause of the failures that follow it at once") {
  TestWorld world(3);
  Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
    if (rank == 0) {
      ControlStore store(world.launch(0), {"plan", "options", "build", ""}, {kLong, kLong});
      store.barrier("never", kLong);
      return;
    }
    BareRank bare(world, hello_of(world, rank));
    bare.hear_answer();
    bare.hear(Frame::Type::kWelcome);
    // Rank 1 finds its other connections broken, and is heard before the death is seen.
    if (rank == 1) {
      bare.say(
          encode_frame(Frame::Type::kFailure, encode_failure({RunFailure::Kind::kFailed, 1, 1, "a connection broke"})));
      bare.hear_end();
    } else {
      std::this_thread::sleep_for(20ms);
    }
  });
  CHECK(fates[0] == "rank 2 has died (its connection to rank 0 broke)");
}

TEST_CASE("store: a rank that says nothing more is noticed") {
  TestWorld world(3);
  auto start = Clock::now();
  Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
    if (rank == 2) {
      BareRank silent(world, hello_of(world, 2));
      silent.hear_answer();
      silent.hear_end();
      return;
    }
    ControlStore store(world.launch(rank), {"plan", "options", "build", ""}, {kLong, 1000ms});
    store.barrier("never", kLong);
  });
  CHECK(fates == Fates{"rank 2 has not been heard of for 1 s", "heard of it", "done"});
  CHECK(seconds_since(start) < 20);
}

TEST_CASE("store: rank 0 that says nothing more is noticed by all, and rank 1 tells") {
  TestWorld world(3);
  Fates fates = run_threads({0, 1, 2}, [&](int64_t rank) {
    if (rank == 0) {
      Descriptor listener(world.launch(0).listener);
      std::vector<Descriptor> peers;
      while (peers.size() < 2) {
        Descriptor peer = accept_from(listener);
        if (!peer.is_open()) continue;
        send_all(peer, encode_answer({}) + encode_frame(Frame::Type::kWelcome, ""), Clock::now() + kLong);
        peers.push_back(std::move(peer));
      }
      std::string bytes;
      for (Descriptor& peer : peers) {
        while (receive_exactly(peer, 1, bytes, Clock::now() + kLong)) {
        }
      }
      return;
    }
    ControlStore store(world.launch(rank), {"plan", "options", "build", ""}, {kLong, 1000ms});
    store.barrier("never", kLong);
  });
  CHECK(fates == Fates{"done", "rank 0 has not been heard of for 1 s", "heard of it"});
}

TEST_CASE("store: beats keep ranks alive that do not meet for long") {
  TestWorld world(3);
  Fates fates = run_stores(world,
                           [&](ControlStore& store) {
                             std::this_thread::sleep_for(store.rank() * 900ms);
                             store.barrier("slow", kLong);
                             store.finish(kLong);
                           },
                           {kLong, 1000ms});
  CHECK(fates == Fates(3, "done"));
}

TEST_CASE("store: ranks that do not come to a round are named") {
  TestWorld world(5);
  Fates fates = run_stores(world, [&](ControlStore& store) {
    bool comes = store.rank() == 0 || store.rank() == 2;
    if (comes) store.barrier("the end of step 3", store.rank() == 2 ? 300ms : kLong);
    while (!store.failure()) std::this_thread::sleep_for(5ms);
    store.throw_if_failed();
  });
  Fates expected(5, "heard of it");
  expected[0] = "rank 2 waited 0.3 s at barrier \"the end of step 3\"; missing: ranks 1, 3 and 4";
  CHECK(fates == expected);
}

TEST_CASE("store: ranks that come to different rounds are both named") {
  TestWorld world(2);
  Fates fates = run_stores(world, [&](ControlStore& store) {
    if (store.rank() == 0) store.all_gather("losses", "1", kLong);
    store.barrier("start", kLong);
  });
  CHECK(holds(fates[0], "all_gather of \"losses\""));
  CHECK(holds(fates[0], "barrier \"start\""));
  CHECK(fates[1] == "heard of it");
}

TEST_CASE("store: a rank that leaves without finishing has failed") {
  TestWorld world(2);
  Fates fates = run_stores(world, [&](ControlStore& store) {
    if (store.rank() == 1) return;
    try {
      store.finish(kLong);
    } catch (const RunEnded&) {
      CHECK(store.failure()->message == "rank 1 left the run before its end");
      throw;
    }
  });
  CHECK(fates == Fates{"heard of it", "done"});
}

TEST_CASE("store: lists of ranks stay short") {
  CHECK(rank_list({3}) == "rank 3");
  CHECK(rank_list({1, 2}) == "ranks 1 and 2");
  CHECK(rank_list({0, 4, 5, 6, 9}) == "ranks 0, 4-6 and 9");
  std::vector<int64_t> odd(100);
  for (size_t i = 0; i < odd.size(); ++i) odd[i] = static_cast<int64_t>(2 * i + 1);
  CHECK(rank_list(odd) == "ranks 1, 3, 5, 7, 9, 11, 13, 15 and 92 more");
}

}  // namespace
}  // namespace tpc

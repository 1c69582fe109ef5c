// How a run ends when a rank fails, stalls, or does something else than its peers.
#include "runtime/threads/rendezvous.h"

#include <doctest/doctest.h>

#include <chrono>

#include "tests/unit/runtime/threads/rank_team.h"

namespace tpc {
namespace {

using testing::run_ranks;

CollectiveStep reduction(int64_t rank, int64_t world_size, float* data, std::string name, int64_t step_index) {
  CollectiveStep step;
  for (int64_t r = 0; r < world_size; ++r) step.group.push_back(r);
  step.index = rank;
  Region whole = whole_region({4});
  step.input = step.output = {{DType::kF32, {4}}, whole, data};
  step.input_regions = step.output_regions = std::vector<Region>(static_cast<size_t>(world_size), whole);
  step.name = std::move(name);
  step.step_index = step_index;
  return step;
}

std::string failure_of(const ThreadWorld& world) {
  try {
    world.rethrow_failure();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a rank that does not come is named, with where it was last") {
  for (bool spin : {false, true}) {
    // Long enough for all three to come to the first collective on a busy machine.
    ThreadWorld world(3, {spin, std::chrono::milliseconds(2000)});
    std::vector<std::vector<float>> memory(3, std::vector<float>(4));
    run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
      float* data = memory[static_cast<size_t>(rank)].data();
      auto first = communicator.prepare(reduction(rank, 3, data, "block0.attn", 12));
      auto second = communicator.prepare(reduction(rank, 3, data, "block0.fc2", 31));
      first->run();
      if (rank != 1) second->run();
    });
    CHECK_THROWS_AS(world.rethrow_failure(), DeviceError);
    std::string message = failure_of(world);
    CAPTURE(message);
    CHECK(holds(message, "waited 2 s at all_reduce of \"block0.fc2\" (plan step 31)"));
    CHECK(holds(message, "missing: rank 1 (its last there: all_reduce of \"block0.attn\" (plan step 12))"));
    CHECK_FALSE(holds(message, "missing: rank 0"));
    CHECK_FALSE(holds(message, "rank 2 ("));
  }
}

TEST_CASE("a rank that never came is named") {
  ThreadWorld world(2, {false, std::chrono::milliseconds(50)});
  run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
    std::vector<float> memory(1);
    if (rank == 0) communicator.prepare(reduction(rank, 2, memory.data(), "x", 0))->run();
  });
  CHECK(holds(failure_of(world), "rank 0 waited 0.05 s at all_reduce of \"x\" (plan step 0); missing: rank 1"));
}

TEST_CASE("a rank that throws ends the run at once, with its own message") {
  for (bool spin : {false, true}) {
    ThreadWorld world(4, {spin, std::chrono::seconds(60)});
    std::vector<std::vector<float>> memory(4, std::vector<float>(4));
    std::atomic<int> ended{0};
    auto start = std::chrono::steady_clock::now();
    run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
      auto step = communicator.prepare(reduction(rank, 4, memory[static_cast<size_t>(rank)].data(), "x", 0));
      for (int i = 0; i < 10; ++i) {
        if (rank == 2 && i == 5) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          throw InternalError("rank 2 broke");
        }
        try {
          step->run();
        } catch (const RunEnded&) {
          ++ended;
          throw;
        }
      }
    });
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    CHECK(ended == 3);
    CHECK(failure_of(world) == "rank 2 broke");
    CHECK_THROWS_AS(world.rethrow_failure(), InternalError);
  }
}

TEST_CASE("ranks that issue different collectives are both named") {
  ThreadWorld world(2, {false, std::chrono::seconds(60)});
  std::vector<std::vector<float>> memory(2, std::vector<float>(4));
  run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
    CollectiveStep step = reduction(rank, 2, memory[static_cast<size_t>(rank)].data(), rank == 0 ? "x" : "y", 4 + rank);
    communicator.prepare(step)->run();
  });
  CHECK_THROWS_AS(world.rethrow_failure(), InternalError);
  std::string message = failure_of(world);
  CHECK(holds(message, "all_reduce of \"x\" (plan step 4)"));
  CHECK(holds(message, "all_reduce of \"y\" (plan step 5)"));
}

TEST_CASE("ranks that disagree on the kind of reduction are refused") {
  ThreadWorld world(2, {false, std::chrono::seconds(60)});
  std::vector<std::vector<float>> memory(2, std::vector<float>(4));
  run_ranks(world, [&](int64_t rank, ThreadCommunicator& communicator) {
    CollectiveStep step = reduction(rank, 2, memory[static_cast<size_t>(rank)].data(), "x", 4);
    if (rank == 1) step.reduce = ReduceOp::kMax;
    communicator.prepare(step)->run();
  });
  CHECK_THROWS_AS(world.rethrow_failure(), InternalError);
}

}  // namespace
}  // namespace tpc

// Runs that waited for ever for a rank that was gone.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "compiler/core/check.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/trainer.h"
#include "tests/faults/disturbed_backend.h"
#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// Backends of which the first that is asked for, whichever rank that is, is disturbed.
Trainer::MakeBackend disturb_one(std::function<void()> before_prepare, std::function<void()> before_run) {
  auto count = std::make_shared<std::atomic<int>>(0);
  return [=] { return (*count)++ == 0 ? disturbed_backend(before_prepare, before_run) : make_cpu_backend(); };
}

std::string failure_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

/// Fails on the n-th call.
std::function<void()> fail_at(int n) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  return [=] {
    if ((*calls)++ == n) throw DeviceError("the device is gone");
  };
}

bool says(const std::string& message, const std::string& words) { return message.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("B078: a rank that dies at any step of the plan ends the run at once, and every message names it") {
  Plan plan = plan_of(shipped("mlp", {{"batch", 6}}), on("dp=2,tp=2"));
  Batch batch = fixed_batch(plan);
  auto start = Clock::now();
  int ended = 0;
  for (int at = 0; at < 40; at += 3) {
    Trainer trainer(plan, disturb_one(nullptr, fail_at(at)), {.threads_per_rank = 1});
    std::string message = failure_of([&] {
      for (int step = 0; step < 4; ++step) trainer.train_step(batch);
    });
    if (message.empty()) continue;
    ++ended;
    CHECK(says(message, "rank "));
    CHECK(says(message, "training step "));
    CHECK(says(message, "the device is gone"));
    // No rank is left waiting, and the run stays ended.
    CHECK(failure_of([&] { trainer.train_step(batch); }) == message);
  }
  CHECK(ended > 10);
  CHECK(Clock::now() - start < std::chrono::seconds(30));
}

TEST_CASE("B080: a rank that fails or stalls before the first collective is waited for no longer than the limit") {
  Plan plan = plan_of(shipped("mlp", {{"batch", 6}}), on("dp=2,tp=2"));
  Batch batch = fixed_batch(plan);
  auto start = Clock::now();
  // In set-up.
  CHECK(says(failure_of([&] { Trainer trainer(plan, disturb_one(fail_at(0), nullptr)); }), "the device is gone"));
  CHECK(says(failure_of([&] { Trainer trainer(plan, disturb_one(fail_at(9), nullptr)); }), "the device is gone"));
  // Before the first collective of any group: the peers' time-out holds there too.
  auto stall = [stalled = std::make_shared<std::atomic<bool>>(false)] {
    if (!stalled->exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(600));
  };
  {
    Trainer trainer(plan, disturb_one(nullptr, stall),
                    {.threads_per_rank = 1, .timeout = std::chrono::milliseconds(100)});
    std::string message = failure_of([&] { trainer.train_step(batch); });
    CHECK(says(message, "waited 0.1 s at "));
    CHECK(says(message, "missing: rank "));
  }
  // A run that failed, or was never begun, ends.
  { Trainer unused(plan, make_cpu_backend, {.threads_per_rank = 1}); }
  CHECK(Clock::now() - start < std::chrono::seconds(20));
}

}  // namespace tpc::testing

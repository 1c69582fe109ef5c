// Collectives of several groups that waited for one another.
#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "runtime/cpu/cpu_backend.h"
#include "runtime/trainer.h"
#include "tests/faults/disturbed_backend.h"
#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {

TEST_CASE("B082: groups over dp, tp and shared heads never wait for one another, whatever delays a rank") {
  // tp 4 with 2 kv heads: groups of dp, of all of tp and of both its halves, on 8 ranks.
  FaultModel model =
      shipped("llama_tiny", {{"seq", 4}, {"vocab", 19}, {"hidden", 8}, {"head_dim", 2}, {"ffn", 9}, {"kv_heads", 2}});
  Plan plan = plan_of(model, on("dp=2,tp=4"));
  std::set<std::vector<int64_t>> groups;
  for (const PlanStep& step : plan.steps) {
    if (is_collective(step.op)) groups.insert(step.attributes.get_ints("axes"));
  }
  CHECK(groups.size() >= 3);
  Batch batch = fixed_batch(plan);
  TrainerOptions options{.threads_per_rank = 1, .timeout = std::chrono::seconds(20)};
  Trainer even(plan, make_cpu_backend, options);
  auto seed = std::make_shared<std::atomic<unsigned>>(1);
  Trainer delayed(
      plan,
      [seed] {
        auto random = std::make_shared<std::mt19937>((*seed)++);
        return disturbed_backend(nullptr, [random] {
          if ((*random)() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds((*random)() % 300));
        });
      },
      options);
  for (int step = 0; step < 20; ++step) CHECK(delayed.train_step(batch).loss == even.train_step(batch).loss);
  delayed.check_traffic();
}

}  // namespace tpc::testing

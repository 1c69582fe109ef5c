// Whatever order the two queues run in, as far as their waits allow, no step sees memory in another state than in the
// order of the plan.
#include "compiler/lowering/step_order.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/support/program.h"

namespace tpc::testing {
namespace {

/// For every byte range that a step reads or writes, who wrote it last and who has read it since: equal for two orders
/// exactly when every step sees the same.
class ArenaTrace {
 public:
  explicit ArenaTrace(const Plan& plan) : plan_(plan), writer_(static_cast<size_t>(plan.arena_bytes / kGrain), -1) {}

  /// The latest writer of every grain that the step reads.
  std::vector<int> run(int step) {
    const PlanStep& s = plan_.steps[static_cast<size_t>(step)];
    std::vector<int> seen;
    for (int operand : s.operands) visit(operand, [&](int& writer) { seen.push_back(writer); });
    for (int result : s.results) visit(result, [&](int& writer) { writer = step; });
    if (s.op == OpKind::kUpdate) visit(s.operands[0], [&](int& writer) { writer = step; });
    return seen;
  }

 private:
  static constexpr int64_t kGrain = 64;

  template <class Action>
  void visit(int tensor, const Action& action) {
    const PlanTensor& t = plan_.tensors[static_cast<size_t>(tensor)];
    for (int64_t at = t.offset / kGrain; at * kGrain < t.offset + t.bytes; ++at)
      action(writer_[static_cast<size_t>(at)]);
  }

  const Plan& plan_;
  std::vector<int> writer_;
};

void check_orders(const Plan& plan) {
  std::vector<OrderedStep> order = order_steps(plan);
  REQUIRE(order.size() == plan.steps.size());
  std::vector<std::vector<int>> expected;
  ArenaTrace in_order(plan);
  for (size_t i = 0; i < order.size(); ++i) expected.push_back(in_order.run(static_cast<int>(i)));

  std::vector<size_t> queues[2];
  for (size_t i = 0; i < order.size(); ++i) queues[static_cast<size_t>(order[i].queue)].push_back(i);
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    ArenaTrace trace(plan);
    std::vector<char> is_done(order.size());
    size_t at[2] = {};
    while (at[0] < queues[0].size() || at[1] < queues[1].size()) {
      std::vector<size_t> ready;
      for (size_t q : {0U, 1U}) {
        if (at[q] == queues[q].size()) continue;
        int awaited = order[queues[q][at[q]]].waits_for;
        if (awaited < 0 || is_done[static_cast<size_t>(awaited)] != 0) ready.push_back(q);
      }
      // Neither queue waits for ever.
      REQUIRE(!ready.empty());
      // One queue runs ahead of the other as far as it may, or any of them is next.
      size_t q = seed < 2 && ready.size() == 2 ? seed : ready[random() % ready.size()];
      size_t step = queues[q][at[q]++];
      REQUIRE(trace.run(static_cast<int>(step)) == expected[step]);
      is_done[step] = 1;
    }
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].waits_for < 0) continue;
    const OrderedStep& awaited = order[static_cast<size_t>(order[i].waits_for)];
    CHECK(awaited.is_awaited);
    CHECK(awaited.queue != order[i].queue);
    CHECK(order[i].waits_for < static_cast<int>(i));
  }
}

TEST_CASE("queues that wait as told make the plan's order") {
  for (const MeshCase& mesh : mesh_cases()) {
    CAPTURE(mesh.name);
    check_orders(compile_model("small_gpt", {{"batch", 8}, {"seq", 16}}, mesh).plan);
  }
}

TEST_CASE("an input gradient's sum over ranks runs beside the weight gradient") {
  Plan plan = compile_model("small_gpt", {}, {"tp=2", *parse_mesh("tp=2"), false}).plan;
  std::vector<OrderedStep> order = order_steps(plan);
  int beside = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    bool is_sum = plan.steps[i].op == OpKind::kAllReduce && plan.steps[i].phase == Phase::kBackward;
    // It starts as soon as its input is there, while the contraction before it in the plan runs.
    bool is_early = order[i].waits_for < static_cast<int>(i) - 1;
    if (is_sum && is_early && plan.steps[i - 1].op == OpKind::kContract) ++beside;
  }
  // Of both contractions of an attention and of an MLP, in two layers.
  CHECK(beside >= 4);
}

}  // namespace
}  // namespace tpc::testing

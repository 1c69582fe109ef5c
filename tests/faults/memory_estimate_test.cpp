// Memory that was told without looking at what there is at once.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "compiler/plan/plan_json.h"
#include "compiler/plan/report.h"
#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"
#include "tests/support/shell.h"

namespace tpc::testing {
namespace {

/// Where the last tensor ends: what a rank touches of its arena.
int64_t bytes_taken(const Plan& plan) {
  int64_t end = 0;
  for (const PlanTensor& tensor : plan.tensors) end = std::max(end, tensor.offset + tensor.bytes);
  return end;
}

/// The most bytes that must be there at once: each tensor from the step that makes it to the last that reads it. A
/// result that lies over one of its step's operands is counted with it.
int64_t live_bytes(const Plan& plan) {
  std::vector<int> first(plan.tensors.size(), -1), last(plan.tensors.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int result : plan.steps[i].results) first[static_cast<size_t>(result)] = static_cast<int>(i);
    for (int operand : plan.steps[i].operands) last[static_cast<size_t>(operand)] = static_cast<int>(i);
    for (int result : plan.steps[i].results) last[static_cast<size_t>(result)] = static_cast<int>(i);
  }
  int64_t most = 0;
  for (int step = 0; step < static_cast<int>(plan.steps.size()); ++step) {
    std::set<int64_t> counted;
    int64_t alive = plan.persistent_bytes;
    for (size_t t = 0; t < plan.tensors.size(); ++t) {
      if (persists(plan.tensors[t].role) || plan.tensors[t].offset < plan.persistent_bytes) continue;
      if (first[t] <= step && step <= last[t] && counted.insert(plan.tensors[t].offset).second) {
        alive += plan.tensors[t].bytes;
      }
    }
    most = std::max(most, alive);
  }
  return most;
}

int64_t sum_of_all(const Plan& plan) {
  int64_t sum = 0;
  for (const PlanTensor& tensor : plan.tensors) sum += tensor.bytes;
  return sum;
}

}  // namespace

TEST_CASE("B085: the arena that a plan tells holds all its tensors, and hardly more than those that live at once") {
  struct Case {
    const char* model;
    MeshCase mesh;
  };
  std::vector<Case> cases;
  for (const char* model : {"small_gpt", "tiny_gpt", "llama_tiny"}) {
    for (const MeshCase& mesh :
         {on("tp=1"), on("tp=4"), on("tp=2", true), on("dp=2,tp=2", false, 3), searched_on("tp=4")}) {
      cases.push_back({model, mesh});
    }
  }
  for (const Case& c : cases) {
    CAPTURE(c.model);
    CAPTURE(c.mesh.name);
    Plan plan = plan_of(shipped(c.model), c.mesh);
    int64_t taken = bytes_taken(plan);
    CHECK(taken <= plan.arena_bytes);
    CHECK(plan.arena_bytes < taken + kBufferAlignment);
    int64_t live = live_bytes(plan);
    CHECK(live <= plan.arena_bytes);
    CHECK(static_cast<double>(plan.arena_bytes) < 1.1 * static_cast<double>(live));
    CHECK(sum_of_all(plan) > 2 * plan.arena_bytes);
    // The report's parts are no more than the arena either.
    RankLoad load = make_report(plan).ranks[0];
    CHECK(load.peak_activation_bytes + load.parameter_bytes + load.optimizer_state_bytes + load.input_bytes <=
          plan.arena_bytes);
  }
}

TEST_CASE("B085: a run takes hardly more memory than its plan tells") {
  // Sanitizers keep memory of their own.
  if (std::string_view(TPC_SANITIZE) != "") return;
  // Long rows and many layers: kernels that kept working memory each would take several times the arena.
  ScratchFolder scratch("faults_memory");
  const std::string sizes =
      "--batch 1 --seq 1024 --dim max_positions=1024 --dim layers=16 --dim hidden=32 --dim head_dim=64 --dim heads=2 "
      "--dim ffn=32 --dim vocab=32";
  REQUIRE(run_in_shell("tpc shard models/tiny_gpt.json --tp 2 " + sizes +
                           " -o $TMP/plan.json && tprun $TMP/plan.json --steps 1 --threads 2",
                       TPC_SOURCE_DIR, scratch.path())
              .exit_code == 0);
  Plan plan = read_plan(read_whole(scratch.path() / "plan.json"), "plan.json");
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  // 64 MiB for the program, its libraries and the batch.
  CHECK(usage.ru_maxrss < (64 << 10) + plan.arena_bytes * plan.mesh.world_size() * 5 / 4 / 1024);
}

}  // namespace tpc::testing

// The whole executor on CUDA devices, the fake one or GPUs, trains as the cpu does, and moves the bytes that the plan
// says.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cpu/cpu_backend.h"
#include "runtime/data.h"
#include "tests/cuda/training_devices.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

constexpr uint64_t kSteps = 4;

std::vector<double> losses_of(Trainer& trainer, uint64_t steps = kSteps) {
  std::unique_ptr<DataSource> data = fixed_data(trainer.plan(), 5);
  std::vector<double> losses;
  for (uint64_t step = 0; step < steps; ++step) {
    losses.push_back(static_cast<double>(trainer.train_step(data->batch(step)).loss));
  }
  return losses;
}

std::vector<double> cpu_losses(const Plan& plan) {
  Trainer trainer(plan, make_cpu_backend, {.threads_per_rank = 1});
  return losses_of(trainer);
}

void check_like_cpu(const Plan& plan, double limit, const std::function<void(DeviceSettings&)>& change = {}) {
  if (!has_devices(plan.mesh.world_size())) return;
  std::vector<double> expected = cpu_losses(plan);
  Trainer trainer(plan, training_devices(plan.mesh.world_size(), change), {.threads_per_rank = 1});
  std::vector<double> found = losses_of(trainer);
  for (size_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    CHECK(std::abs(found[step] - expected[step]) < limit * std::max(1.0, std::abs(expected[step])));
  }
  trainer.wait();
  trainer.check_traffic();
  // The tables of kernels come to what the plan says; what is small may lie in a block that the device had opened
  // before.
  constexpr int64_t kBlock = int64_t{2} << 20;
  std::optional<RankMemory> memory = trainer.memory_use();
  REQUIRE(memory.has_value());
  CHECK(memory->planned > plan.arena_bytes);
  CHECK(memory->use.held >= memory->planned);
  CHECK(memory->use.held <= memory->planned + kBlock);
  CHECK(memory->use.used >= memory->use.held - 2 * kBlock);
}

// Small enough for an emulated GPU.
const std::map<std::string, int64_t> kSizes = {{"batch", 2},    {"seq", 8},  {"hidden", 32}, {"heads", 4},
                                               {"head_dim", 8}, {"ffn", 64}, {"vocab", 40}};

Plan small_plan(const std::string& mesh, const std::function<void(MeshCase&)>& change = {}) {
  MeshCase mesh_case{mesh, *parse_mesh(mesh), false};
  if (change) change(mesh_case);
  return compile_model("small_gpt", kSizes, mesh_case).plan;
}

TEST_CASE("one rank on a device trains like the cpu") { check_like_cpu(small_plan("tp=1"), 1e-5); }

TEST_CASE("tensor-parallel ranks train like the cpu") {
  for (const char* mesh : {"tp=2", "tp=4"}) {
    CAPTURE(mesh);
    check_like_cpu(small_plan(mesh), 1e-5);
  }
}

TEST_CASE("ranks whose parts are uneven train like the cpu") { check_like_cpu(small_plan("tp=3"), 1e-5); }

TEST_CASE("data-parallel and sequence-parallel ranks train like the cpu") {
  check_like_cpu(small_plan("dp=2,tp=2"), 1e-5);
  check_like_cpu(small_plan("tp=2", [](MeshCase& mesh) { mesh.sequence_parallel = true; }), 1e-5);
  check_like_cpu(small_plan("tp=3", [](MeshCase& mesh) { mesh.sequence_parallel = true; }), 1e-5);
}

TEST_CASE("ranks that share their optimizer, gradients and weights train like the cpu") {
  for (int stage : {1, 2, 3}) {
    CAPTURE(stage);
    check_like_cpu(small_plan("dp=2", [&](MeshCase& mesh) { mesh.zero_stage = stage; }), 1e-5);
  }
}

TEST_CASE("bf16 ranks train like the cpu") {
  for (const char* mesh : {"tp=1", "tp=2"}) {
    CAPTURE(mesh);
    Plan plan = small_plan(mesh, [](MeshCase& c) { c.precision = Precision{DType::kBF16, DType::kF32}; });
    check_like_cpu(plan, 5e-3);
  }
}

TEST_CASE("a step that is replayed as a graph makes the bits of one that is issued anew") {
  for (const char* mesh : {"tp=1", "tp=2"}) {
    CAPTURE(mesh);
    Plan plan = small_plan(mesh);
    int64_t world = plan.mesh.world_size();
    if (!has_devices(world)) continue;
    Trainer replayed(plan, training_devices(world), {.threads_per_rank = 1});
    Trainer issued(plan, training_devices(world, [](DeviceSettings& s) { s.use_graphs = false; }),
                   {.threads_per_rank = 1});
    CHECK(losses_of(replayed) == losses_of(issued));
    for (const PlanTensor& tensor : plan.tensors) {
      if (tensor.role != TensorRole::kParameter) continue;
      CAPTURE(tensor.name);
      CHECK(replayed.get_tensor(tensor.name).f32 == issued.get_tensor(tensor.name).f32);
    }
    CHECK(replayed.counted() == issued.counted());
  }
}

TEST_CASE("measured units are those of the plan, and measuring changes no number") {
  Plan plan = small_plan("tp=1");
  if (!has_devices(1)) return;
  Trainer measured(plan, training_devices(1), {.threads_per_rank = 1});
  Trainer plain(plan, training_devices(1), {.threads_per_rank = 1});
  measured.time_units();
  CHECK(losses_of(measured) == losses_of(plain));
  std::vector<UnitTime> units = measured.unit_times();
  REQUIRE(!units.empty());
  int end = 0;
  for (const UnitTime& unit : units) {
    CHECK(unit.first >= end);
    CHECK(unit.ms > 0);
    end = unit.end;
  }
  CHECK(end <= static_cast<int>(plan.steps.size()));
}

TEST_CASE("ranks on symmetric windows train like the cpu") {
  check_like_cpu(small_plan("tp=2"), 1e-5, [](DeviceSettings& settings) { settings.symmetric_memory = true; });
}

TEST_CASE("tuned products train like the cpu") {
  check_like_cpu(small_plan("tp=2"), 1e-5, [](DeviceSettings& settings) { settings.tune = true; });
}

}  // namespace
}  // namespace tpc::testing

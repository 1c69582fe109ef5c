// Training in bf16 with f32 masters: the same on every mesh up to the rounding of f32, and near what f32 alone gives.
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/cpu/cpu_backend.h"
#include "runtime/data.h"
#include "runtime/trainer.h"
#include "tests/support/program.h"
#include "tests/support/run_check.h"

namespace tpc::testing {
namespace {

const std::map<std::string, int64_t> kDims{{"batch", 4},    {"seq", 16}, {"vocab", 61}, {"hidden", 32},
                                           {"head_dim", 4}, {"ffn", 77}, {"layers", 2}};

MeshCase mesh_of(const char* text, Precision precision, bool sequence_parallel = false, int zero_stage = 0) {
  MeshCase mesh{text, *parse_mesh(text), sequence_parallel, zero_stage};
  if (zero_stage > 0) mesh.name += " zero " + std::to_string(zero_stage);
  if (sequence_parallel) mesh.name += " sequence-parallel";
  mesh.precision = precision;
  return mesh;
}

std::vector<MeshCase> meshes(Precision precision) {
  std::vector<MeshCase> cases;
  for (const char* text : {"tp=2", "tp=3", "tp=4", "dp=2,tp=2", "dp=2"}) cases.push_back(mesh_of(text, precision));
  cases.push_back(mesh_of("tp=2", precision, /*sequence_parallel=*/true));
  cases.push_back(mesh_of("dp=2,tp=2", precision, false, 1));
  cases.push_back(mesh_of("dp=2,tp=2", precision, false, 3));
  cases.push_back(mesh_of("tp=2", precision));
  cases.back().name = "tp=2 by search";
  cases.back().strategy = "search";
  return cases;
}

std::vector<double> losses(const Plan& plan, uint64_t steps) {
  TrainerOptions options;
  options.threads_per_rank = 1;
  Trainer trainer(plan, make_cpu_backend, options);
  std::unique_ptr<DataSource> data = fixed_data(trainer.plan(), 5);
  std::vector<double> made;
  for (uint64_t step = 0; step < steps; ++step)
    made.push_back(static_cast<double>(trainer.train_step(data->batch(step)).loss));
  trainer.check_traffic();
  return made;
}

double worst(const std::vector<double>& found, const std::vector<double>& wanted) {
  double largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    largest = std::max(largest, std::abs(found[i] - wanted[i]) / std::abs(wanted[i]));
  return largest;
}

void check_meshes(const char* model, Precision precision, double limit) {
  std::map<std::string, int64_t> dims = kDims;
  if (std::string(model) == "llama_tiny") dims["kv_heads"] = 4;
  std::vector<double> single = losses(compile_model(model, dims, mesh_of("tp=1", precision)).plan, 8);
  for (const MeshCase& mesh : meshes(precision)) {
    CAPTURE(mesh.name);
    double found = worst(losses(compile_model(model, dims, mesh).plan, 8), single);
    MESSAGE(std::string(model) << " on " << mesh.name << ", " << to_string(precision) << ": losses within " << found);
    CHECK(found < limit);
  }
}

}  // namespace

TEST_CASE("in bf16 with sums in f32 every mesh trains as one rank does") {
  for (const char* model : {"small_gpt", "tiny_gpt", "llama_tiny"}) check_meshes(model, kBF16, 1e-3);
}

TEST_CASE("in bf16 with sums in bf16 every mesh trains as one rank does, but for the parts' rounding") {
  check_meshes("tiny_gpt", kAllBF16, 1e-2);
}

TEST_CASE("in bf16 the loss falls as it does in f32") {
  constexpr uint64_t kSteps = 50;
  std::vector<double> f32 = losses(compile_model("small_gpt", kDims, mesh_of("tp=1", Precision{})).plan, kSteps);
  std::vector<double> bf16 = losses(compile_model("small_gpt", kDims, mesh_of("tp=2", kBF16)).plan, kSteps);
  MESSAGE("50 steps in bf16 on two ranks stay within " << worst(bf16, f32) << " of f32 on one; the loss falls from "
                                                       << f32.front() << " to " << f32.back());
  CHECK(worst(bf16, f32) < 2e-2);
  CHECK(bf16.back() < 0.9 * bf16.front());
}

TEST_CASE("an update far below a rounding of bf16 is not lost") {
  constexpr const char* kModel = R"({"format": "tpc-model", "version": 1, "name": "slow",
"dims": {"batch": 4, "in": 6, "out": 5}, "precision": "bf16",
"inputs": {"x": {"shape": ["batch", "in"], "dtype": "float32"}, "y": {"shape": ["batch", "out"], "dtype": "float32"}},
"layers": [
 {"name": "fc", "op": "linear", "input": "x", "out": ["out"], "init": {"constant": 1}},
 {"name": "loss", "op": "mean_squared_error", "input": "fc", "targets": "y"}],
"loss": "loss", "optimizer": {"type": "adamw", "lr": 1e-5, "weight_decay": 0}})";
  Trainer trainer(compile_text(kModel, "slow.json", {}, {"tp=1", DeviceMesh()}).plan, make_cpu_backend, {});
  std::unique_ptr<DataSource> data = fixed_data(trainer.plan(), 5);
  constexpr uint64_t kSteps = 20;
  for (uint64_t step = 0; step < kSteps; ++step) trainer.train_step(data->batch(0));
  // AdamW moves every weight by nearly lr in each of its first steps on one batch; next to 1 a bf16 moves by 2^-8.
  HostTensor weight = trainer.get_tensor("fc.weight");
  for (float value : weight.f32) {
    double moved = std::abs(static_cast<double>(value) - 1);
    CHECK(moved > 0.5e-5 * kSteps);
    CHECK(moved < 1.5e-5 * kSteps);
  }
}

TEST_CASE("the check agrees with plans in bf16") {
  std::map<std::string, int64_t> dims = kDims;
  dims["layers"] = 1;
  for (const Precision& precision : {kBF16, kAllBF16}) {
    for (const MeshCase& mesh : meshes(precision)) {
      CAPTURE(mesh.name);
      CAPTURE(to_string(precision));
      Plan plan = compile_model("tiny_gpt", dims, mesh).plan;
      CHECK(check_run(plan, trained(1), 1, 1).message == "");
      CHECK(check_run(plan, in_double(1), 1, 1).message == "");
    }
  }
}

}  // namespace tpc::testing

// The cpu runtime on every mesh: the same initial bits, the same dropout masks, the same training as on one rank.
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/cpu/cpu_backend.h"
#include "runtime/data.h"
#include "runtime/trainer.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

TrainerOptions one_thread() {
  TrainerOptions options;
  options.threads_per_rank = 1;
  return options;
}

std::vector<std::string> persistent_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kState) names.push_back(tensor.name);
  }
  return names;
}

/// Largest difference over the largest element.
double difference(const HostTensor& a, const HostTensor& b) {
  double largest = 1e-30;
  double worst = 0;
  for (size_t i = 0; i < a.f32.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b.f32[i])));
    worst = std::max(worst, std::abs(static_cast<double>(a.f32[i]) - static_cast<double>(b.f32[i])));
  }
  return worst / largest;
}

struct SmallModel {
  const char* name;
  std::map<std::string, int64_t> dims;
};

const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> models{
      {"small_gpt", {{"vocab", 61}, {"ffn", 77}}},
      {"tiny_gpt", {{"vocab", 61}, {"ffn", 77}}},
      {"mlp", {{"batch", 6}}},
      {"llama_tiny", {{"batch", 4}, {"vocab", 61}, {"ffn", 77}}},
      {"mid_gpt",
       {{"batch", 4}, {"seq", 16}, {"vocab", 61}, {"hidden", 32}, {"head_dim", 4}, {"ffn", 53}, {"layers", 1}}},
      {"gpt2_124m",
       {{"seq", 16}, {"vocab", 61}, {"hidden", 36}, {"heads", 9}, {"head_dim", 4}, {"ffn", 53}, {"layers", 2}}},
      {"llama3_405b",
       {{"batch", 4},
        {"seq", 16},
        {"vocab", 61},
        {"hidden", 32},
        {"heads", 16},
        {"kv_heads", 4},
        {"head_dim", 4},
        {"ffn", 53},
        {"layers", 2}}}};
  return models;
}

void check_model(const SmallModel& model) {
  constexpr int kSteps = 6;
  // Gradients of fp32 runs agree to a few units in the last place; AdamW divides noise by its own size, so weights are
  // compared by what a step can move.
  constexpr double kLossLimit = 1e-5;
  Trainer single(compile_model(model.name, model.dims, {"one rank", DeviceMesh(), false}).plan, make_cpu_backend,
                 one_thread());
  std::map<std::string, HostTensor> initial;
  for (const std::string& name : persistent_names(single.plan())) initial[name] = single.get_tensor(name);
  std::unique_ptr<DataSource> data = fixed_data(single.plan(), 5);
  std::vector<double> losses;
  for (uint64_t step = 0; step < kSteps; ++step) {
    losses.push_back(static_cast<double>(single.train_step(data->batch(step)).loss));
  }
  for (const MeshCase& mesh : mesh_cases()) {
    CAPTURE(model.name);
    CAPTURE(mesh.name);
    Trainer sharded(compile_model(model.name, model.dims, mesh).plan, make_cpu_backend, one_thread());
    for (const auto& [name, tensor] : initial) {
      CAPTURE(name);
      CHECK(sharded.get_tensor(name).f32 == tensor.f32);
    }
    std::unique_ptr<DataSource> sharded_data = fixed_data(sharded.plan(), 5);
    for (uint64_t step = 0; step < kSteps; ++step) {
      double loss = static_cast<double>(sharded.train_step(sharded_data->batch(step)).loss);
      CHECK(std::abs(loss - losses[step]) < kLossLimit * std::max(1.0, std::abs(losses[step])));
    }
    for (const std::string& name : persistent_names(sharded.plan())) {
      CAPTURE(name);
      if (name.ends_with(".m")) CHECK(difference(sharded.get_tensor(name), single.get_tensor(name)) < 1e-3);
    }
    sharded.check_traffic();
  }
}

constexpr const char* kDropoutModel = R"({"format": "tpc-model", "version": 1, "name": "dropped",
"dims": {"batch": 4, "seq": 6, "vocab": 13, "hidden": 10, "ffn": 14},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "embed", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"]},
 {"name": "drop0", "op": "dropout", "input": "embed", "rate": 0.3},
 {"name": "norm", "op": "layer_norm", "input": "drop0"},
 {"name": "up", "op": "linear", "input": "norm", "out": ["ffn"], "init": {"normal": 0.5}},
 {"name": "drop1", "op": "dropout", "input": "up", "rate": 0.3},
 {"name": "down", "op": "linear", "input": "drop1", "out": ["hidden"]},
 {"name": "head", "op": "linear", "input": "down", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "head", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9}})";

/// Which elements of a dropout's result are zero, step by step.
std::vector<std::vector<bool>> masks(const MeshCase& mesh, const std::string& name) {
  Trainer trainer(compile_text(kDropoutModel, "dropped.json", {}, mesh).plan, make_cpu_backend, one_thread());
  trainer.keep(name);
  std::unique_ptr<DataSource> data = fixed_data(trainer.plan(), 1);
  std::vector<std::vector<bool>> result;
  for (uint64_t step = 0; step < 3; ++step) {
    trainer.train_step(data->batch(step));
    std::vector<bool> mask;
    for (float value : trainer.get_tensor(name).f32) mask.push_back(value == 0.0F);
    result.push_back(std::move(mask));
  }
  return result;
}

}  // namespace

TEST_CASE("small_gpt trains the same on every mesh on the cpu") { check_model(small_models()[0]); }
TEST_CASE("tiny_gpt trains the same on every mesh on the cpu") { check_model(small_models()[1]); }
TEST_CASE("mlp trains the same on every mesh on the cpu") { check_model(small_models()[2]); }
TEST_CASE("llama_tiny trains the same on every mesh on the cpu") { check_model(small_models()[3]); }
TEST_CASE("mid_gpt trains the same on every mesh on the cpu") { check_model(small_models()[4]); }
TEST_CASE("gpt2 trains the same on every mesh on the cpu") { check_model(small_models()[5]); }
TEST_CASE("llama3 trains the same on every mesh on the cpu") { check_model(small_models()[6]); }

TEST_CASE("dropout masks are the same bits on every mesh, and another at every step") {
  for (const char* name : {"drop0", "drop1"}) {
    std::vector<std::vector<bool>> single = masks({"one rank", DeviceMesh(), false}, name);
    CHECK(single[0] != single[1]);
    CHECK(single[1] != single[2]);
    for (const MeshCase& mesh : mesh_cases()) {
      if (mesh.mesh.world_size() > 6 || (mesh.sequence_parallel && mesh.mesh.num_axes() > 1)) continue;
      CAPTURE(mesh.name);
      CHECK(masks(mesh, name) == single);
    }
  }
}

TEST_CASE("small_gpt falls from 5.8 below 4 in 50 steps, equal at every tp") {
  std::vector<double> losses;
  for (const char* text : {"tp=1", "tp=2", "tp=3", "tp=4", "tp=8"}) {
    CAPTURE(text);
    Trainer trainer(compile_model("small_gpt", {}, {text, *parse_mesh(text), false}).plan, make_cpu_backend,
                    one_thread());
    std::unique_ptr<DataSource> data = fixed_data(trainer.plan(), 0);
    for (uint64_t step = 0; step < 50; ++step) {
      double loss = static_cast<double>(trainer.train_step(data->batch(step)).loss);
      if (losses.size() <= step) losses.push_back(loss);
      CHECK(std::abs(loss - losses[step]) < 1e-5);
    }
    trainer.check_traffic();
  }
  CHECK(losses.front() > 5.5);
  CHECK(losses.front() < 6.1);
  CHECK(losses.back() < 4.0);
}

}  // namespace tpc::testing

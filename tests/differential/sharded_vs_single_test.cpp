// Every model on every mesh equals the model on one rank: losses, every gradient, weights and optimizer state, in
// double.
#include <doctest/doctest.h>

#include "tests/support/program.h"

namespace tpc::testing {
namespace {

/// Sizes are small, and odd wherever nothing forbids it, so that uneven blocks are the normal case.
struct ModelCase {
  const char* model;
  std::map<std::string, int64_t> dims;
};

const std::vector<ModelCase>& model_cases() {
  static const std::vector<ModelCase> cases{
      {"small_gpt",
       {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"heads", 8}, {"head_dim", 3}, {"ffn", 21}}},
      {"tiny_gpt",
       {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"heads", 8}, {"head_dim", 3}, {"ffn", 21}}},
      {"mlp", {{"batch", 6}}},
      {"llama_tiny", {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"ffn", 21}}},
      {"mid_gpt",
       {{"batch", 4},
        {"seq", 8},
        {"vocab", 19},
        {"hidden", 12},
        {"heads", 8},
        {"head_dim", 3},
        {"ffn", 21},
        {"layers", 1}}},
      {"gpt2_124m",
       {{"batch", 4},
        {"seq", 8},
        {"vocab", 19},
        {"hidden", 12},
        {"heads", 9},
        {"head_dim", 3},
        {"ffn", 21},
        {"layers", 2}}},
      {"llama3_405b",
       {{"batch", 4},
        {"seq", 8},
        {"vocab", 19},
        {"hidden", 12},
        {"heads", 16},
        {"kv_heads", 4},
        {"head_dim", 4},
        {"ffn", 21},
        {"layers", 2}}},
  };
  return cases;
}

void check_model(const ModelCase& model) {
  constexpr double kTolerance = 1e-9;
  for (bool ignore : {false, true}) {
    MeshCase single{"one rank", DeviceMesh()};
    Training wanted = train_reference(compile_model(model.model, model.dims, single).graph, 3, ignore);
    for (const MeshCase& mesh : mesh_cases()) {
      CAPTURE(model.model);
      CAPTURE(mesh.name);
      CAPTURE(ignore);
      Training found = train_reference(compile_model(model.model, model.dims, mesh).graph, 3, ignore);
      CHECK(first_difference(wanted, found, kTolerance) == "");
    }
  }
}

/// Layers called as the compiler calls its own values.
constexpr const char* kNamedLikeOurs = R"({"format": "tpc-model", "version": 1, "name": "names",
"dims": {"batch": 4, "seq": 5, "vocab": 11, "hidden": 6, "ffn": 9},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "weight", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"]},
 {"name": "grad", "op": "linear", "input": "weight", "out": ["ffn"], "bias": true},
 {"name": "norm2", "op": "gelu", "input": "grad"},
 {"name": "optimizer", "op": "linear", "input": "norm2", "out": ["hidden"]},
 {"name": "grad_norm", "op": "add", "inputs": ["weight", "optimizer"]},
 {"name": "clip_coefficient", "op": "linear", "input": "grad_norm", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "clip_coefficient", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "adamw", "lr": 0.01, "clip_norm": 0.1}})";

}  // namespace

TEST_CASE("layers may be called as the compiler calls its own values") {
  Training wanted =
      train_reference(compile_text(kNamedLikeOurs, "names.json", {}, {"one rank", DeviceMesh()}).graph, 3, true);
  for (const MeshCase& mesh : mesh_cases()) {
    if (mesh.mesh.world_size() > 6 || (mesh.sequence_parallel && mesh.mesh.num_axes() > 1)) continue;
    CAPTURE(mesh.name);
    Training found = train_reference(compile_text(kNamedLikeOurs, "names.json", {}, mesh).graph, 3, true);
    CHECK(first_difference(wanted, found, 1e-9) == "");
  }
}

TEST_CASE("small_gpt on every mesh equals one rank") { check_model(model_cases()[0]); }
TEST_CASE("tiny_gpt on every mesh equals one rank") { check_model(model_cases()[1]); }
TEST_CASE("mlp on every mesh equals one rank") { check_model(model_cases()[2]); }
TEST_CASE("llama_tiny on every mesh equals one rank") { check_model(model_cases()[3]); }
TEST_CASE("mid_gpt on every mesh equals one rank") { check_model(model_cases()[4]); }
TEST_CASE("gpt2 on every mesh equals one rank") { check_model(model_cases()[5]); }
TEST_CASE("llama3 on every mesh equals one rank") { check_model(model_cases()[6]); }

}  // namespace tpc::testing

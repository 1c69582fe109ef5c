// Every model on every mesh equals the model on one rank: losses, every gradient, weights and optimizer state, in double.
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
      {"small_gpt", {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"heads", 8}, {"head_dim", 3}, {"ffn", 21}}},
      {"tiny_gpt", {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"heads", 8}, {"head_dim", 3}, {"ffn", 21}}},
      {"mlp", {{"batch", 6}}},
      {"llama_tiny", {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"ffn", 21}}},
      {"mid_gpt", {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"heads", 8}, {"head_dim", 3}, {"ffn", 21}, {"layers", 1}}},
      {"gpt2_124m", {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"heads", 9}, {"head_dim", 3}, {"ffn", 21}, {"layers", 2}}},
      {"llama3_405b", {{"batch", 4}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"heads", 16}, {"kv_heads", 4}, {"head_dim", 4}, {"ffn", 21}, {"layers", 2}}},
  };
  return cases;
}

void check_model(const ModelCase& model) {
  constexpr double kTolerance = 1e-9;
  for (bool ignore : {false, true}) {
    MeshCase single{"one rank", DeviceMesh(), false};
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

}  // namespace

TEST_CASE("small_gpt on every mesh equals one rank") { check_model(model_cases()[0]); }
TEST_CASE("tiny_gpt on every mesh equals one rank") { check_model(model_cases()[1]); }
TEST_CASE("mlp on every mesh equals one rank") { check_model(model_cases()[2]); }
TEST_CASE("llama_tiny on every mesh equals one rank") { check_model(model_cases()[3]); }
TEST_CASE("mid_gpt on every mesh equals one rank") { check_model(model_cases()[4]); }
TEST_CASE("gpt2 on every mesh equals one rank") { check_model(model_cases()[5]); }
TEST_CASE("llama3 on every mesh equals one rank") { check_model(model_cases()[6]); }

}  // namespace tpc::testing

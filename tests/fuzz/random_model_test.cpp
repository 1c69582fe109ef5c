// Random legal models, on random meshes, either train exactly as on one rank or are refused by a message of the user's
// kind (a dimension smaller than its axis).
#include "tests/fuzz/random_model.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "compiler/frontend/model.h"
#include "passes/pipeline.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

MeshCase random_mesh(std::mt19937_64& random) {
  auto between = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int tp = between(1, 6);
  int dp = between(1, 3);
  return {"random", DeviceMesh({{"dp", dp}, {"tp", tp}}), between(0, 1) == 1};
}

struct Outcome {
  int trained = 0;
  int refused = 0;
};

void check_seed(uint64_t seed, Outcome& outcome) {
  std::string text = random_model(seed);
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  CAPTURE(text);
  MeshCase single{"one rank", DeviceMesh()};
  Training wanted = train_reference(compile_text(text, "random.json", {}, single).graph, 2, seed % 2 == 0);
  for (int i = 0; i < 3; ++i) {
    MeshCase mesh = random_mesh(random);
    CAPTURE(to_string(mesh.mesh));
    CAPTURE(mesh.sequence_parallel);
    Graph graph;
    try {
      graph = compile_text(text, "random.json", {}, mesh).graph;
    } catch (const UserError&) {
      ++outcome.refused;
      continue;
    }
    CHECK(first_difference(wanted, train_reference(graph, 2, seed % 2 == 0), 1e-8) == "");
    ++outcome.trained;
  }
}

void check_seeds(uint64_t first, uint64_t count) {
  Outcome outcome;
  for (uint64_t seed = first; seed < first + count; ++seed) check_seed(seed, outcome);
  MESSAGE(outcome.trained << " trained, " << outcome.refused << " refused");
  CHECK(outcome.trained > outcome.refused);
}

}  // namespace

TEST_CASE("random models on random meshes equal one rank") { check_seeds(1, 60); }

TEST_CASE("full: many random models on random meshes equal one rank") {
  const char* first = std::getenv("TPC_SEED");
  check_seeds(first != nullptr ? std::strtoull(first, nullptr, 10) : 1000, 2000);
}

}  // namespace tpc::testing

// Random legal models, on random meshes, either train exactly as on one rank or are refused by a message of the user's
// kind (a dimension smaller than its axis).
#include "tests/support/random_model.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "compiler/frontend/model.h"
#include "passes/collective_price.h"
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

/// A search of the same mesh, by bytes alone or with a price of memory.
MeshCase searched(MeshCase mesh, double memory_price) {
  mesh.name = "random search";
  mesh.sequence_parallel = false;
  mesh.strategy = "search";
  mesh.search.memory_price = memory_price;
  return mesh;
}

/// A plan that fits some tenths of the cheapest one's arena, found at least where one for a price of memory fits: what
/// is claimed of it holds, and it trains the same.
void check_limited(const std::string& text, const MeshCase& mesh, const Plan& cheapest, int64_t tenths,
                   const Training& wanted, bool ignore, double tolerance) {
  MeshCase limited = searched(mesh, 0);
  limited.memory_limit = cheapest.arena_bytes / 10 * tenths;
  Plan priced = compile_text(text, "random.json", {}, searched(mesh, 1)).plan;
  bool priced_fits = priced.arena_bytes <= limited.memory_limit;
  CompileResult result;
  try {
    result = compile_text(text, "random.json", {}, limited);
  } catch (const UserError&) {
    CHECK(!priced_fits);
    return;
  }
  const SearchProof& proof = *result.plan.proof;
  CHECK(result.plan.arena_bytes <= limited.memory_limit);
  CHECK(proof.price >= cheapest.proof->price);
  CHECK(proof.bound <= proof.price);
  CHECK(proof.bound >= cheapest.proof->bound);
  CHECK(proof.memory_limit == proof.memory);
  if (priced.proof->memory <= proof.memory) CHECK(priced.proof->price >= proof.bound);
  CHECK(first_difference(wanted, train_reference(result.graph, 2, ignore), tolerance) == "");
}

void check_seed(uint64_t seed, bool searches, Outcome& outcome) {
  std::string text = random_model(seed);
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  CAPTURE(text);
  MeshCase single{"one rank", DeviceMesh()};
  bool ignore = seed % 2 == 0;
  Training wanted = train_reference(compile_text(text, "random.json", {}, single).graph, 2, ignore);
  constexpr double kTolerance = 1e-8;
  for (int i = 0; i < 3; ++i) {
    MeshCase mesh = random_mesh(random);
    CAPTURE(to_string(mesh.mesh));
    CAPTURE(mesh.sequence_parallel);
    std::optional<int64_t> by_rules;
    try {
      Graph graph = compile_text(text, "random.json", {}, mesh).graph;
      by_rules = collective_price(graph, MovePrice());
      CHECK(first_difference(wanted, train_reference(graph, 2, ignore), kTolerance) == "");
      ++outcome.trained;
    } catch (const UserError&) {
      ++outcome.refused;
    }
    if (!searches) continue;
    // Whatever the rules can do, the search can, for no more bytes; what it returns trains the same, dear memory or
    // not.
    for (double memory_price : {0.0, i == 0 ? 500.0 : 2.0}) {
      CAPTURE(memory_price);
      CompileResult result;
      try {
        result = compile_text(text, "random.json", {}, searched(mesh, memory_price));
      } catch (const UserError& error) {
        CHECK_MESSAGE(!by_rules, error.what());
        ++outcome.refused;
        continue;
      }
      const Graph& graph = result.graph;
      // The optimum promised is what the collectives cost (the pass checks that it is no more).
      CHECK(graph.proof->price == collective_price(graph, MovePrice()));
      CHECK(graph.proof->is_optimal());
      if (by_rules && memory_price == 0) CHECK(graph.proof->price <= *by_rules);
      CHECK(first_difference(wanted, train_reference(graph, 2, ignore), kTolerance) == "");
      if (memory_price == 0 && i == 0) {
        auto tenths = static_cast<int64_t>(6 + seed % 4);
        check_limited(text, mesh, result.plan, tenths, wanted, ignore, kTolerance);
      }
      ++outcome.trained;
    }
  }
}

/// Every `stride`-th seed is searched too, which takes most of the time.
void check_seeds(uint64_t first, uint64_t count, uint64_t stride) {
  Outcome outcome;
  for (uint64_t seed = first; seed < first + count; ++seed) check_seed(seed, seed % stride == 1 % stride, outcome);
  MESSAGE(outcome.trained << " trained, " << outcome.refused << " refused");
  CHECK(outcome.trained > outcome.refused);
}

}  // namespace

TEST_CASE("random models on random meshes equal one rank") { check_seeds(1, 30, 12); }

TEST_CASE("more random models on random meshes equal one rank") { check_seeds(31, 30, 12); }

TEST_CASE("full: many random models on random meshes equal one rank") {
  const char* first = std::getenv("TPC_SEED");
  check_seeds(first != nullptr ? std::strtoull(first, nullptr, 10) : 1000, 2000, 10);
}

}  // namespace tpc::testing

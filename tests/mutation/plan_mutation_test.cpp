// Every fault of every kind, at every place, in plans of every model on every mesh: the static proof refuses it, or the
// plan is shown to be the same one by executing it in exact numbers.
#include <doctest/doctest.h>

#include <map>

#include "tests/mutation/mutated_plan.h"
#include "tests/mutation/random_plan.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

void check_meshes(const std::string& model_name, int stride) {
  const std::map<std::string, int64_t> dims{{"batch", 8}};
  DiagnosticSink sink;
  std::string file = std::string(TPC_SOURCE_DIR) + "/models/" + model_name + ".json";
  const Model model = load_model(file, {dims}, sink);
  FaultCounts counts;
  int first = 0;
  for (const MeshCase& mesh : mesh_cases()) {
    if (mesh.sequence_parallel && model_name == "mlp") continue;
    CAPTURE(mesh.name);
    MutatedPlan plan(model, compile_model(model_name, dims, mesh).plan);
    plan.check(model_name + " on " + mesh.name, stride, first, 10, counts);
    first = (first + 1) % stride;
  }
  MESSAGE(model_name << ": " << counts.faults << " faults, " << counts.same << " of them the same plan; "
                     << counts.executed << " of the refused ones executed");
  CHECK(counts.faults > 100);
  CHECK(counts.executed > 0);
}

void check_random(uint64_t first, uint64_t count, int stride) {
  FaultCounts counts;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    RandomPlan random = random_plan(seed);
    DiagnosticSink sink;
    const Model model = parse_model(random.model, "random.json", {}, sink);
    MutatedPlan plan(model, std::move(random.plan));
    plan.check("seed " + std::to_string(seed), stride, static_cast<int>(seed) % stride, 10, counts);
  }
  MESSAGE(counts.faults << " faults, " << counts.same << " of them the same plan; " << counts.executed
                        << " of the refused ones executed");
  CHECK(counts.faults > 100);
  CHECK(counts.executed > 0);
}

}  // namespace

TEST_CASE("faulty plans in bf16 are refused") {
  const std::map<std::string, int64_t> dims{{"batch", 4}, {"seq", 8}, {"layers", 1}};
  for (const Precision& precision : {kBF16, kAllBF16}) {
    DiagnosticSink sink;
    std::string file = std::string(TPC_SOURCE_DIR) + "/models/tiny_gpt.json";
    const Model model = load_model(file, {dims, precision}, sink);
    FaultCounts counts;
    for (const char* text : {"tp=1", "tp=3", "dp=2,tp=2"}) {
      MeshCase mesh{text, *parse_mesh(text)};
      mesh.precision = precision;
      CAPTURE(mesh.name);
      MutatedPlan plan(model, compile_model("tiny_gpt", dims, mesh).plan);
      plan.check(std::string("bf16 on ") + text, 41, 0, 10, counts);
    }
    MESSAGE(counts.faults << " faults, " << counts.same << " of them the same plan; " << counts.executed
                          << " of the refused ones executed");
    CHECK(counts.faults > 100);
    CHECK(counts.executed > 0);
  }
}

TEST_CASE("faulty random plans are refused") { check_random(0, 16, 60); }

TEST_CASE("full: faulty random plans are refused at every place") { check_random(0, 60, 1); }

TEST_CASE("faulty plans of small_gpt are refused on every mesh") { check_meshes("small_gpt", 20); }

TEST_CASE("faulty plans of tiny_gpt are refused on every mesh") { check_meshes("tiny_gpt", 20); }

TEST_CASE("faulty plans of llama_tiny are refused on every mesh") { check_meshes("llama_tiny", 20); }

TEST_CASE("faulty plans of mlp are refused on every mesh") { check_meshes("mlp", 3); }

TEST_CASE("full: faulty plans of small_gpt are refused at every place") { check_meshes("small_gpt", 1); }

TEST_CASE("full: faulty plans of tiny_gpt are refused at every place") { check_meshes("tiny_gpt", 1); }

TEST_CASE("full: faulty plans of llama_tiny are refused at every place") { check_meshes("llama_tiny", 1); }

TEST_CASE("full: faulty plans of mlp are refused at every place") { check_meshes("mlp", 1); }

}  // namespace tpc::testing

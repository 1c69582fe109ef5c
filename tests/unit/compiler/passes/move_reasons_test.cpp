// Reasons of collectives: each says what kind of thing happens, in the model's words.
#include <doctest/doctest.h>

#include "compiler/plan/plan.h"
#include "tests/support/program.h"

namespace tpc {
namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::vector<testing::MeshCase> cases() {
  std::vector<testing::MeshCase> list = testing::megatron_cases();
  // Searches take longer: some of them.
  std::vector<testing::MeshCase> searched = testing::search_cases();
  for (size_t i = 0; i < searched.size(); i += 4) list.push_back(searched[i]);
  return list;
}

void check_reasons(const std::string& model) {
  for (const testing::MeshCase& mesh : cases()) {
    if (mesh.sequence_parallel && model == "mlp") continue;
    CAPTURE(mesh.name);
    Plan plan = testing::compile_model(model, {{"batch", 4}}, mesh).plan;
    for (const PlanStep& step : plan.steps) {
      if (!is_collective(step.op)) continue;
      CAPTURE(step.why);
      CHECK(contains(step.why, "; "));
      // Sums are why something is added, splits why something is gathered.
      bool adds = step.op == OpKind::kAllReduce || step.op == OpKind::kReduceScatter;
      CHECK(contains(step.why, "each rank h") == adds);
      CHECK((adds || contains(step.why, "split by ")));
      // Placements are told in words, dimensions by name; of queries, keys and values together one has none.
      CHECK_FALSE(contains(step.why, "["));
      CHECK((contains(step.why, "qkv") || !contains(step.why, "dimension ")));
    }
  }
}

}  // namespace

TEST_CASE("reasons of tiny_gpt's collectives fit their kind and name dimensions") { check_reasons("tiny_gpt"); }
TEST_CASE("reasons of llama_tiny's collectives fit their kind and name dimensions") { check_reasons("llama_tiny"); }
TEST_CASE("reasons of mlp's collectives fit their kind and name dimensions") { check_reasons("mlp"); }

}  // namespace tpc

// What the passes make is sound, computes its model, reads back as written, and what is edited at random never gets
// further than a UserError.
#include <doctest/doctest.h>

#include <optional>
#include <random>

#include "compiler/core/diagnostic.h"
#include "compiler/plan/check_plan.h"
#include "compiler/plan/plan_json.h"
#include "compiler/plan/plan_view.h"
#include "compiler/plan/rank_plan.h"
#include "compiler/plan/report.h"
#include "compiler/verify/plan_proof.h"
#include "tests/support/program.h"

namespace tpc {
namespace {

Plan compiled(const std::string& model, const testing::MeshCase& mesh) {
  Plan plan = testing::compile_model(model, {{"batch", 4}}, mesh).plan;
  plan.model_json = R"({"dims":{"batch":4,"eps":1e-05},"layers":[{"name":"a","on":true}]})";
  return plan;
}

void check_plans(const std::string& model, const std::vector<testing::MeshCase>& meshes) {
  const Graph step = testing::model_step(model, {{"batch", 4}});
  const verify::ValueNumbers values(step);
  for (const testing::MeshCase& mesh : meshes) {
    if (mesh.sequence_parallel && model == "mlp") continue;
    CAPTURE(mesh.name);
    Plan plan = compiled(model, mesh);
    std::optional<verify::Flaw> flaw = verify::find_step_flaw(values, plan);
    CHECK_MESSAGE(!flaw, flaw->step << ": " << flaw->message);
    std::string text = write_plan(plan);
    Plan back = read_plan(text, "plan.json");
    CHECK(back == plan);
    CHECK(write_plan(back) == text);
    CHECK(!plan_text(plan).empty());
    CHECK(!rank_text(plan, plan.mesh.world_size() - 1).empty());
  }
}

}  // namespace

TEST_CASE("plans of small_gpt by rules are sound, proved and read back as written") {
  check_plans("small_gpt", testing::megatron_cases());
}

TEST_CASE("searched plans of small_gpt are sound, proved and read back as written") {
  check_plans("small_gpt", testing::search_cases());
}

TEST_CASE("plans of tiny_gpt by rules are sound, proved and read back as written") {
  check_plans("tiny_gpt", testing::megatron_cases());
}

TEST_CASE("searched plans of tiny_gpt are sound, proved and read back as written") {
  check_plans("tiny_gpt", testing::search_cases());
}

TEST_CASE("plans of llama_tiny by rules are sound, proved and read back as written") {
  check_plans("llama_tiny", testing::megatron_cases());
}

TEST_CASE("searched plans of llama_tiny are sound, proved and read back as written") {
  check_plans("llama_tiny", testing::search_cases());
}

TEST_CASE("plans of mlp by rules are sound, proved and read back as written") {
  check_plans("mlp", testing::megatron_cases());
}

TEST_CASE("searched plans of mlp are sound, proved and read back as written") {
  check_plans("mlp", testing::search_cases());
}

TEST_CASE("a plan edited at random loads soundly or is refused in the user's terms") {
  Plan plan = compiled("llama_tiny", {"", DeviceMesh({{"dp", 2}, {"tp", 4}}), false});
  const std::string text = write_plan(plan);
  const std::vector<std::string> words{"0",       "1",          "-1",         "64",       "9223372036854775807",
                                       "1e400",   "null",       "true",       "[]",       "\"R\"",
                                       "{}",      "\"x\"",      "[S(0), R]",  "S(1)",     "P(sum)",
                                       "P(max)",  "f32",        "i32",        "add",      "update",
                                       "reshape", "all_reduce", "all_gather", "parameter"};
  std::mt19937 random(1);
  auto pick = [&](size_t size) { return static_cast<size_t>(random()) % size; };
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string edited = text;
    for (int edits = 0; edits <= round % 3; ++edits) {
      size_t at = pick(edited.size());
      switch (random() % 4) {
        case 0:  // another number or word where one stands
        case 1: {
          size_t begin = edited.find_first_of("0123456789\"", at);
          if (begin == std::string::npos) break;
          size_t end = edited[begin] == '"' ? edited.find('"', begin + 1) + 1
                                            : std::min(edited.find_first_not_of("0123456789.", begin), edited.size());
          edited.replace(begin, end - begin, words[pick(words.size())]);
          break;
        }
        case 2: {  // a line less
          size_t begin = edited.rfind('\n', at);
          size_t end = edited.find('\n', at + 1);
          if (begin != std::string::npos && end != std::string::npos) edited.erase(begin, end - begin);
          break;
        }
        default:
          edited[at] = static_cast<char>(32 + random() % 95);
      }
    }
    CAPTURE(round);
    try {
      Plan back = read_plan(edited, "plan.json");
      // What loads can be told and run.
      make_report(back);
      plan_text(back);
      rank_plan(back, back.mesh.world_size() - 1);
    } catch (const UserError&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

}  // namespace tpc

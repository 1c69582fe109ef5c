#include "compiler/plan/plan_json.h"

#include <doctest/doctest.h>

#include "compiler/core/diagnostic.h"
#include "tests/unit/compiler/plan/sample_plan.h"

namespace tpc {
namespace {

/// The message of the first mistake in an edited plan, "" when it loads.
Diagnostic first_mistake(const std::string& text) {
  try {
    read_plan(text, "plan.json");
  } catch (const UserError& error) {
    return error.diagnostics()[0];
  }
  return {};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

bool has(const Diagnostic& diagnostic, const std::string& words) {
  return diagnostic.message.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a plan reads back as it was written") {
  Plan plan = sample_plan();
  std::string text = write_plan(plan);
  Plan back = read_plan(text, "plan.json");
  CHECK(back == plan);
  CHECK(write_plan(back) == text);
}

TEST_CASE("attributes keep their types") {
  Plan plan = sample_plan();
  plan.tensors[1].attributes = {
      {"shape", Shape{6, 8}}, {"dtype", std::string("f32")}, {"init", std::string("constant")},
      {"value", 1.0},         {"trainable", false},          {"std", 1e-300},
      {"bound", 0.1 + 0.2}};
  Plan back = read_plan(write_plan(plan), "plan.json");
  CHECK(back.tensors[1].attributes == plan.tensors[1].attributes);
}

TEST_CASE("names with quotes, line ends and letters beyond ASCII are kept") {
  Plan plan = sample_plan();
  plan.tensors[3].name = "a \"b\"\n\\ \x01 Φ/~";
  plan.steps[0].why = "tab\there";
  CHECK(read_plan(write_plan(plan), "plan.json") == plan);
}

TEST_CASE("one line a tensor and a step") {
  std::string text = write_plan(sample_plan());
  CHECK(text.find("    {\"name\": \"fc1\", \"dtype\": \"f32\", \"shape\": [4, 6], \"sharding\": \"[S(1)]\", \"role\": "
                  "\"activation\", \"offset\": 384, \"bytes\": 48},\n") != std::string::npos);
  CHECK(
      text.find("    {\"op\": \"contract\", \"operands\": [\"x\", \"fc1.weight\"], \"results\": [\"fc1\"], "
                "\"attributes\": {\"einsum\": \"bh,fh->bf\"}, \"phase\": \"forward\", \"layer\": \"fc1\", \"origin\": "
                "\"/layers/0\"},\n") != std::string::npos);
}

TEST_CASE("what is not a plan is refused") {
  std::string text = write_plan(sample_plan());
  CHECK(has(first_mistake("[]"), "a plan is an object"));
  CHECK(has(first_mistake("{}"), "not a plan"));
  CHECK(has(first_mistake(R"({"format": "tpc-model"})"), "compile it first: tpc shard plan.json"));
  Diagnostic version = first_mistake(replaced(text, "\"version\": 1", "\"version\": 7"));
  CHECK(has(version, "plan version 7 is not known; this program reads version 1"));
  CHECK(version.loc.pointer == "/version");
  CHECK(has(first_mistake(replaced(text, "\"version\": 1", "\"version\": true")), "a boolean is not known"));
  CHECK(first_mistake("{\"format\": ").byte >= 0);
  CHECK(first_mistake("").byte >= 0);
  CHECK(has(first_mistake(std::string(5000, '[')), "nested deeper"));
  CHECK(has(first_mistake(replaced(text, "\"version\": 1", "\"version\": 1, \"version\": 1")), "stands here twice"));
}

TEST_CASE("every malformed part has its place") {
  std::string text = write_plan(sample_plan());
  struct Case {
    std::string from, to, pointer, words;
  };
  const Case cases[] = {
      {"\"arena_bytes\"", "\"arena_byte\"", "/arena_byte", "did you mean \"arena_bytes\"?"},
      {"\"mesh\": \"[tp=2]\"", "\"mesh\": \"[tp=0]\"", "/mesh", "malformed"},
      {"\"dtype\": \"f32\", \"shape\": [4, 8]", "\"dtype\": \"f33\", \"shape\": [4, 8]", "/tensors/0/dtype",
       "unknown dtype"},
      {"\"shape\": [6, 8]", "\"shape\": [6, \"8\"]", "/tensors/1/shape/1", "wanted an integer, found a text"},
      {"\"[S(0)]\"", "\"[S(zero)]\"", "/tensors/1/sharding", "malformed"},
      {"\"role\": \"input\"", "\"role\": \"inputs\"", "/tensors/0/role", "unknown role"},
      {"\"op\": \"unary\"", "\"op\": \"unry\"", "/steps/1/op", "did you mean \"unary\"?"},
      {"\"operands\": [\"fc1\"]", "\"operands\": [\"fc3\"]", "/steps/1/operands/0",
       "no tensor is named \"fc3\"; did you mean"},
      {"\"phase\": \"forward\"", "\"phase\": \"front\"", "/steps/0/phase", "unknown phase"},
      {"\"offset\": 384", "\"offset\": 384.5", "/tensors/3/offset", "found a number with a fraction"},
      {"\"offset\": 384", "\"offset\": 18446744073709551615", "/tensors/3/offset", "does not fit"},
      {"{\"name\": \"act\"", "{\"name\": \"fc1\"", "/tensors/4/name", "two tensors are named \"fc1\""},
      {"{\"einsum\": \"bh,fh->bf\"}", "{\"einsum\": null}", "/steps/0/attributes/einsum", "is null"},
      {", \"results\": [\"act\"]", "", "/steps/1", "member \"results\" is missing"},
  };
  for (const Case& item : cases) {
    CAPTURE(item.to);
    Diagnostic mistake = first_mistake(replaced(text, item.from, item.to));
    CHECK(mistake.loc.pointer == item.pointer);
    CHECK(has(mistake, item.words));
    CHECK(mistake.loc.file == "plan.json");
  }
}

TEST_CASE("several mistakes are listed in one go") {
  std::string text = replaced(write_plan(sample_plan()), "\"role\": \"input\"", "\"role\": \"in\"");
  text = replaced(text, "\"op\": \"unary\"", "\"op\": \"nary\"");
  try {
    read_plan(text, "plan.json");
    FAIL("loaded");
  } catch (const UserError& error) {
    CHECK(error.diagnostics().size() == 2);
  }
}

}  // namespace tpc

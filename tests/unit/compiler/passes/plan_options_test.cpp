#include "passes/plan_options.h"

#include <doctest/doctest.h>

namespace tpc {

TEST_CASE("options that a plan carries ask for the same plan again") {
  CompileOptions options;
  options.mesh = *parse_mesh("dp=2,tp=8");
  options.strategy = "search";
  options.sequence_parallel = true;
  options.zero_stage = 2;
  options.search.no_split = {"seq", "batch"};
  options.search.sub_axes = {2, 4};
  options.search.free_axes = true;
  options.search.memory_price = 0.125;
  options.memory_limit = 123456789;
  options.links = {{"tp", 4.5e11, 3e-6}, {"dp", 5e10, 1e-5}};
  options.price = MovePrice(options.links);
  CompileOptions again = read_plan_options(plan_options(options), "plan.json");
  CHECK(again.mesh == options.mesh);
  CHECK(again.strategy == options.strategy);
  CHECK(again.sequence_parallel == options.sequence_parallel);
  CHECK(again.zero_stage == options.zero_stage);
  CHECK(again.search == options.search);
  CHECK(again.links == options.links);
  CHECK(again.price == options.price);
  CHECK(plan_options(again) == plan_options(options));
}

TEST_CASE("what is at its default is not told, but for mesh, strategy and sequence_parallel") {
  CompileOptions options;
  options.mesh = *parse_mesh("tp=2");
  std::map<std::string, std::string> texts = plan_options(options);
  CHECK(texts.size() == 3);
  CHECK(texts.at("mesh") == "tp=2");
}

TEST_CASE("malformed options name themselves and what is wanted") {
  for (auto [name, text] : std::initializer_list<std::pair<std::string, std::string>>{{"mesh", "tp"},
                                                                                      {"zero", "x"},
                                                                                      {"sub_axes", "2x"},
                                                                                      {"memory_price", "-1"},
                                                                                      {"memory_limit", "1.5"},
                                                                                      {"free_axes", "yes"},
                                                                                      {"links", "tp:1"}}) {
    CAPTURE(name);
    std::map<std::string, std::string> texts{{"mesh", "tp=2"}};
    texts[name] = text;
    CHECK_THROWS_WITH_AS(read_plan_options(texts, "plan.json"), doctest::Contains(("\"" + name + "\"").c_str()),
                         UserError);
  }
}

}  // namespace tpc

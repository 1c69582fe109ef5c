// Sizes that the number of ranks does not divide.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

FaultModel grouped(int64_t heads, int64_t kv_heads) {
  return shipped("llama_tiny", {{"seq", 6},
                                {"vocab", 19},
                                {"hidden", 10},
                                {"head_dim", 4},
                                {"ffn", 13},
                                {"heads", heads},
                                {"kv_heads", kv_heads}});
}

bool says(const std::string& message, const std::string& words) { return message.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("B042: more ranks than key and value heads, dividing or not, train as one rank; too many are refused") {
  struct Case {
    int64_t heads, kv_heads;
    const char* mesh;
  };
  for (const Case& c : {Case{8, 2, "tp=4"}, Case{4, 1, "tp=2"}, Case{6, 3, "tp=2"}, Case{12, 4, "tp=6"},
                        Case{8, 4, "tp=8"}, Case{6, 2, "tp=3"}}) {
    CAPTURE(c.heads);
    CAPTURE(c.kv_heads);
    CAPTURE(c.mesh);
    FaultModel model = grouped(c.heads, c.kv_heads);
    CHECK(difference_from_one_rank(model, on(c.mesh)) == "");
    CHECK(difference_from_one_rank(model, searched_on(c.mesh)) == "");
  }
  // Every number of heads up to 8 in groups of any size, on every tp up to it.
  for (int64_t heads = 1; heads <= 8; ++heads) {
    for (int64_t kv_heads = 1; kv_heads <= heads; ++kv_heads) {
      if (heads % kv_heads != 0) continue;
      for (int64_t tp = 2; tp <= heads; ++tp) {
        CAPTURE(heads);
        CAPTURE(kv_heads);
        CAPTURE(tp);
        CHECK(difference_from_one_rank(grouped(heads, kv_heads), {"", DeviceMesh({{"tp", tp}})}, 1) == "");
      }
    }
  }
  std::string message = compile_error(grouped(8, 4), on("tp=16"));
  CHECK(says(message, "\"block0.q\" is split by heads (8), too few for tp 16"));
  CHECK(says(message, "tp 1 to 8 work"));
}

TEST_CASE("B043: no attribute of a step counts what a rank holds: they are one rank's on every mesh") {
  FaultModel model = grouped(6, 3);
  using Key = std::tuple<std::string, OpKind, std::string>;
  auto attributes = [&](const MeshCase& mesh) {
    Plan plan = plan_of(model, mesh);
    std::map<Key, Attributes> found;
    for (const PlanStep& step : plan.steps) {
      if (is_move(step.op) || step.results.empty()) continue;
      found[{step.layer, step.op, plan.tensors[static_cast<size_t>(step.results[0])].name}] = step.attributes;
    }
    return found;
  };
  std::map<Key, Attributes> wanted = attributes(on("tp=1"));
  CHECK(wanted.size() > 50);
  for (const MeshCase& mesh : {on("tp=2"), on("tp=3"), on("tp=6"), on("dp=2,tp=3", true), searched_on("tp=3")}) {
    CAPTURE(mesh.name);
    CHECK(attributes(mesh) == wanted);
    CHECK(difference_from_one_rank(model, mesh, 1) == "");
  }
}

TEST_CASE("B045: any vocabulary is split on any tp without padding, and one smaller than tp is refused") {
  FaultModel model =
      shipped("small_gpt", {{"batch", 2}, {"seq", 4}, {"hidden", 8}, {"head_dim", 1}, {"ffn", 8}, {"layers", 1}});
  for (int64_t vocab : {7, 32001, 50257, 151669}) {
    model.dims["vocab"] = vocab;
    for (const char* text : {"tp=2", "tp=3", "tp=4", "tp=6", "tp=8"}) {
      CAPTURE(vocab);
      CAPTURE(text);
      MeshCase mesh = on(text);
      if (vocab < mesh.mesh.world_size()) {
        std::string message = compile_error(model, mesh);
        CHECK(says(message, "\"embed\" is split by vocab (7), too few for tp 8"));
        CHECK(says(message, "tp 1 to 7 work"));
        continue;
      }
      Plan plan = plan_of(model, mesh);
      const PlanTensor& table = tensor_named(plan, "embed.weight");
      CHECK(table.type.shape == Shape{vocab, 8});
      int64_t rows = 0;
      for (int64_t rank = 0; rank < mesh.mesh.world_size(); ++rank) {
        rows += local_region(table.type.shape, table.sharding, plan.mesh, plan.mesh.coordinate(rank)).dims[0].size();
      }
      CHECK(rows == vocab);
      if (vocab == 7) CHECK(difference_from_one_rank(model, mesh) == "");
    }
  }
  model.dims["vocab"] = 32001;
  EveryRank single(plan_of(model, on("tp=1"))), run(plan_of(model, on("tp=6")));
  Batch batch = fixed_batch(single.plan());
  for (int step = 0; step < 3; ++step) {
    single.train_step(batch);
    run.train_step(batch);
    CHECK(std::abs(single.loss() - run.loss()) < 1e-5F);
  }
}

}  // namespace tpc::testing

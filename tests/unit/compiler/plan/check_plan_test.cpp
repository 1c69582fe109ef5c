#include "compiler/plan/check_plan.h"

#include <doctest/doctest.h>

#include <functional>

#include "compiler/core/diagnostic.h"
#include "compiler/ops/op_def.h"
#include "tests/unit/compiler/plan/sample_plan.h"

namespace tpc {
namespace {

/// "pointer: message" of the first mistake, "" when the plan is sound.
std::string mistake(const std::function<void(Plan&)>& edit) {
  Plan plan = sample_plan();
  edit(plan);
  try {
    check_plan(plan, "plan.json");
  } catch (const UserError& error) {
    const Diagnostic& first = error.diagnostics()[0];
    return first.loc.pointer + ": " + first.message;
  }
  return "";
}

#define CHECK_MISTAKE(pointer, words, ...)                          \
  do {                                                              \
    std::string found_ = mistake([](Plan& plan) { __VA_ARGS__; });  \
    CHECK_MESSAGE(found_.starts_with(pointer ": "), found_);        \
    CHECK_MESSAGE(found_.find(words) != std::string::npos, found_); \
  } while (false)

}  // namespace

TEST_CASE("a sound plan passes") {
  CHECK(mistake([](Plan&) {}) == "");
}

TEST_CASE("tensors") {
  CHECK_MISTAKE("/tensors/1/sharding", "1 placements", plan.mesh = DeviceMesh({{"dp", 2}, {"tp", 2}});
                plan.tensors[0].sharding = TensorSharding::replicated(plan.mesh));
  CHECK_MISTAKE("/tensors/1/sharding", "names dimension 2", plan.tensors[1].sharding = {{Placement::shard(2)}});
  CHECK_MISTAKE("/tensors/1/sharding", "units change nothing", plan.tensors[1].sharding = {{Placement::shard(0, 3)}});
  CHECK_MISTAKE("/tensors/0/sharding", "cannot start as a partial sum",
                plan.tensors[0].sharding = {{Placement::partial()}});
  CHECK_MISTAKE("/tensors/3/shape", "each at least 1", plan.tensors[3].type.shape = {4, 0});
  CHECK_MISTAKE("/tensors/3/shape", "each at least 1",
                plan.tensors[3].type.shape = Shape({int64_t{1} << 40, int64_t{1} << 40}));
  CHECK_MISTAKE("/tensors/3/offset", "multiple of 64", plan.tensors[3].offset = 388);
  CHECK_MISTAKE("/tensors/3/offset", "outside the arena", plan.tensors[3].offset = 832);
  CHECK_MISTAKE("/tensors/3/offset", "outside the arena", plan.tensors[3].offset = INT64_MAX - 63);
  CHECK_MISTAKE("/tensors/3/bytes", "fullest rank holds f32[4, 3], 48 bytes", plan.tensors[3].bytes = 44);
  CHECK_MISTAKE("/tensors/1/offset", "persistent part", plan.persistent_bytes = 192; plan.tensors[2].offset = 0);
  CHECK_MISTAKE(
      "/tensors/1", "needs the attribute \"std\"",
      plan.tensors[1].attributes = {
          {"shape", Shape{6, 8}}, {"dtype", std::string("f32")}, {"init", std::string("normal")}, {"trainable", true}});
  CHECK_MISTAKE("/tensors/1/attributes", "unknown", plan.tensors[1].attributes.set("init", std::string("norml")));
  CHECK_MISTAKE("/tensors/1/attributes", "declare f32[6, 9]", plan.tensors[1].attributes.set("shape", Shape{6, 9}));
}

TEST_CASE("steps") {
  CHECK_MISTAKE("/steps/0/op", "no step of a plan", plan.steps[0].op = OpKind::kParameter);
  CHECK_MISTAKE("/steps/0/operands", "takes 2 operands, found 1", plan.steps[0].operands = {0});
  CHECK_MISTAKE("/steps/1/results", "makes 1 results, found 0", plan.steps[1].results = {});
  CHECK_MISTAKE("/steps/0", "needs the attribute \"einsum\"", plan.steps[0].attributes = {});
  CHECK_MISTAKE("/steps/0/attributes/einsum", "is a text, found 3", plan.steps[0].attributes.set("einsum", int64_t{3}));
  CHECK_MISTAKE("/steps/0/attributes/einsums", "did you mean \"einsum\"?",
                plan.steps[0].attributes.set("einsums", true));
  CHECK_MISTAKE("/steps/0", "contract \"fc1\"", plan.steps[0].attributes.set("einsum", std::string("bh,hf->bf")));
  CHECK_MISTAKE("/steps/1", "f32[4, 6]", plan.tensors[4].type.shape = {2, 6});
  CHECK_MISTAKE("/steps/1", "", plan.steps[1].attributes.set("function", std::string("golu")));
}

TEST_CASE("shardings that an op does not allow") {
  CHECK_MISTAKE("/steps/0", "does not allow the placements [R], [S(0)] -> [R]; these operands give [S(1)]",
                plan.tensors[3].sharding = {{Placement::replicate()}};
                plan.tensors[3].bytes = 96);
  // A partial sum may not meet what is not linear.
  CHECK_MISTAKE("/steps/3", "does not allow", plan.steps.erase(plan.steps.begin() + 3); plan.steps[3].operands = {5});
  // The weights of a row-parallel layer, split by rows instead.
  CHECK_MISTAKE("/steps/2", "no placement of the result makes these operands right",
                plan.tensors[2].sharding = {{Placement::shard(0)}});
}

TEST_CASE("moves change their axes in the way of their kind") {
  CHECK_MISTAKE("/steps/3", "mesh axis 1", plan.steps[3].attributes.set("axes", std::vector<int64_t>{1}));
  CHECK_MISTAKE("/steps/3", "axes", plan.steps[3].attributes.set("axes", std::vector<int64_t>{}));
  CHECK_MISTAKE("/steps/3", "reduces P(sum) by \"max\"", plan.steps[3].attributes.set("op", std::string("max")));
  CHECK_MISTAKE("/steps/3", "S to R", plan.steps[3].op = OpKind::kAllGather;
                plan.steps[3].attributes = {{"axes", std::vector<int64_t>{0}}});
  CHECK_MISTAKE("/steps/3", "P to S", plan.steps[3].op = OpKind::kReduceScatter);
}

TEST_CASE("a gather of an outer axis under a split inner one is refused") {
  Plan plan = sample_plan();
  plan.mesh = DeviceMesh({{"dp", 2}, {"tp", 2}});
  plan.options["mesh"] = "dp=2,tp=2";
  for (PlanTensor& tensor : plan.tensors) {
    tensor.sharding.placements.insert(tensor.sharding.placements.begin(), Placement::replicate());
  }
  plan.steps[3].attributes.set("axes", std::vector<int64_t>{1});
  check_plan(plan, "plan.json");
  // x [4, 8] by [S(0), S(0)] gathered over dp first: the blocks of rank (0, 1) and (1, 1) are not neighbours.
  plan.tensors.push_back(
      sample_tensor("x.split", {4, 8}, {Placement::shard(0), Placement::shard(0)}, TensorRole::kActivation, 832, 32));
  plan.tensors.push_back(
      sample_tensor("x.half", {4, 8}, {Placement::replicate(), Placement::shard(0)}, TensorRole::kActivation, 896, 64));
  plan.arena_bytes = 960;
  PlanStep slice = plan.steps[3];
  slice.op = OpKind::kLocalSlice;
  slice.operands = {0};
  slice.results = {8};
  slice.attributes = {{"axes", std::vector<int64_t>{0, 1}}};
  PlanStep gather = slice;
  gather.op = OpKind::kAllGather;
  gather.operands = {8};
  gather.results = {9};
  gather.attributes = {{"axes", std::vector<int64_t>{0}}};
  plan.steps.push_back(slice);
  check_plan(plan, "plan.json");
  plan.steps.push_back(gather);
  CHECK_THROWS_WITH_AS(check_plan(plan, "plan.json"), doctest::Contains("move the later axis first"), UserError);
}

TEST_CASE("order of steps") {
  CHECK_MISTAKE("/steps/0/operands/0", "which no earlier step makes", std::swap(plan.steps[0], plan.steps[1]));
  CHECK_MISTAKE("/steps/2/results/0", "made a second time; step 1 did",
                plan.steps.insert(plan.steps.begin() + 1, plan.steps[1]));
  CHECK_MISTAKE("/outputs", "no output is named \"loss\"", plan.outputs.clear());
  CHECK_MISTAKE("/outputs/loss", "replicated f32 scalar", plan.outputs["loss"] = 5);
  CHECK_MISTAKE("/outputs/loss", "no tensor 8", plan.outputs["loss"] = 8);
}

TEST_CASE("an update is the last use of its target") {
  auto with_update = [](Plan& plan, bool in_place) {
    plan.tensors.push_back(
        sample_tensor("fc1.next", {6, 8}, {Placement::shard(0)}, TensorRole::kOther, in_place ? 128 : 832, 96));
    plan.arena_bytes = 960;
    PlanStep scale;
    scale.op = OpKind::kScale;
    scale.operands = {1};
    scale.results = {8};
    scale.attributes = {{"factor", 0.5}};
    scale.phase = Phase::kOptimizer;
    PlanStep update;
    update.op = OpKind::kUpdate;
    update.operands = {1, 8};
    update.phase = Phase::kOptimizer;
    plan.steps.push_back(scale);
    plan.steps.push_back(update);
  };
  CHECK(mistake([&](Plan& plan) { with_update(plan, false); }) == "");
  bool scale_is_in_place = !op_def(OpKind::kScale).inplace.empty();
  CHECK((mistake([&](Plan& plan) { with_update(plan, true); }) == "") == scale_is_in_place);
  CHECK(mistake([&](Plan& plan) {
          with_update(plan, false);
          plan.steps.push_back(plan.steps.back());
        }).find("updated a second time; step 7 did") != std::string::npos);
  CHECK(mistake([&](Plan& plan) {
          with_update(plan, false);
          std::rotate(plan.steps.begin(), plan.steps.end() - 2, plan.steps.end());
        }).find("after step 1 has updated it") != std::string::npos);
  CHECK(mistake([&](Plan& plan) {
          with_update(plan, false);
          plan.steps.back().operands = {3, 8};
        }).find("update") != std::string::npos);
}

TEST_CASE("no buffer is overwritten while it is needed") {
  CHECK_MISTAKE("/tensors/5/offset", "overwrites \"act\" (bytes 448 to 496), which the same step reads",
                plan.tensors[5].offset = 448);
  CHECK_MISTAKE("/tensors/4/offset", "must last to the end", plan.tensors[4].offset = 128);
  CHECK_MISTAKE("/tensors/6/offset", "overwrites \"fc2\"", plan.tensors[6].offset = 576);
  // fc1 is dead when fc2 is written; x is never free.
  CHECK(mistake([](Plan& plan) { plan.tensors[5].offset = 640, plan.tensors[6].offset = 384; }) == "");
  CHECK_MISTAKE("/tensors/2/offset", "before the first step", plan.tensors[2].offset = 128);
}

TEST_CASE("reshapes share a buffer with what they reshape, as long as nobody writes over it") {
  auto with_reshape = [](Plan& plan) {
    plan.tensors.push_back(sample_tensor("fc2.flat", {32}, {Placement::replicate()}, TensorRole::kActivation,
                                         plan.tensors[6].offset, 128));
    PlanStep reshape;
    reshape.op = OpKind::kReshape;
    reshape.operands = {6};
    reshape.results = {8};
    reshape.attributes = {{"shape", std::vector<int64_t>{32}}};
    plan.steps.insert(plan.steps.begin() + 4, reshape);
    plan.steps[5].operands = {8};
  };
  CHECK(mistake(with_reshape) == "");
  CHECK(mistake([&](Plan& plan) {
          with_reshape(plan);
          plan.tensors[8].offset += 64;
          plan.arena_bytes = 1024;
          plan.tensors[7].offset = 896;
        }).find("overwrites \"fc2@[R]\"") != std::string::npos);
}

}  // namespace tpc

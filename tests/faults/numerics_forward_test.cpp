// Values that a forward pass of other systems added twice, or made of other data than it was given.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

constexpr const char* kTwoLinears = R"({"format": "tpc-model", "version": 1, "name": "two_linears",
"dims": {"batch": 3, "seq": 4, "in": 6, "mid": 9, "out": 5},
"inputs": {"x": {"shape": ["batch", "seq", "in"], "dtype": "float32"}, "y": {"shape": ["batch", "seq", "out"], "dtype": "float32"}},
"layers": [
 {"name": "up", "op": "linear", "input": "x", "out": ["mid"], "shard": "column"},
 {"name": "down", "op": "linear", "input": "up", "out": ["out"], "bias": true, "shard": "row", "init": "zeros"},
 {"name": "loss", "op": "mean_squared_error", "input": "down", "targets": "y"}],
"loss": "loss", "optimizer": {"type": "sgd", "lr": 0.1}})";

/// Two inputs joined, then turned by five elements along the dimension that they are joined in.
constexpr const char* kJoined = R"({"format": "tpc-model", "version": 1, "name": "joined",
"dims": {"batch": 8, "first": 4, "second": 12, "joined": 16},
"inputs": {"a": {"shape": ["batch", "first"], "dtype": "float32"}, "b": {"shape": ["batch", "second"], "dtype": "float32"},
           "y": {"shape": ["batch", "joined"], "dtype": "float32"}},
"layers": [
 {"name": "a_gain", "op": "linear", "input": "a", "out": ["first"]},
 {"name": "b_gain", "op": "linear", "input": "b", "out": ["second"]},
 {"name": "plain", "op": "concat", "inputs": ["a", "b"], "dim": 1},
 {"name": "gained", "op": "concat", "inputs": ["a_gain", "b_gain"], "dim": 1},
 {"name": "mixed", "op": "add", "inputs": ["plain", "gained"]},
 {"name": "wide", "op": "linear", "input": "mixed", "out": ["joined"], "shard": "column"},
 {"name": "tail", "op": "slice", "input": "wide", "dim": "joined", "start": 5, "length": 11},
 {"name": "start", "op": "slice", "input": "wide", "dim": "joined", "start": 0, "length": 5},
 {"name": "turned", "op": "concat", "inputs": ["tail", "start"], "dim": 1},
 {"name": "loss", "op": "mean_squared_error", "input": "turned", "targets": "y"}],
"loss": "loss", "optimizer": {"type": "sgd", "lr": 0.01}})";

/// The plan with its bias added to each rank's part of the sum, and the sum reduced then.
Plan with_early_bias(Plan plan) {
  auto makes = [&](const std::string& name) {
    return find_steps(plan, [&](const PlanStep& step) {
      return !step.results.empty() && step.results[0] == find_tensor(plan, name);
    })[0];
  };
  PlanStep& reduce = plan.steps[collectives_of(plan, "down.product")[0]];
  PlanStep& add = plan.steps[makes("down")];
  int whole = reduce.results[0], sum = add.results[0];
  // The two change places: add(part, bias) makes what was the reduced product, and its reduction is the layer's value.
  std::replace(add.operands.begin(), add.operands.end(), whole, reduce.operands[0]);
  plan.tensors[static_cast<size_t>(whole)].sharding = tensor_named(plan, "down.product").sharding;
  add.results = {whole};
  reduce.operands = {whole};
  reduce.results = {sum};
  std::swap(reduce, add);
  return plan;
}

}  // namespace

TEST_CASE("B005: the bias of a row-parallel layer is added once") {
  FaultModel model{kTwoLinears, {}};
  for (const MeshCase& mesh : {on("tp=2"), on("tp=3"), on("tp=4"), on("tp=2", true), on("dp=3,tp=2")}) {
    CAPTURE(mesh.name);
    EveryRank run(plan_of(model, mesh));
    run.set_tensor("down.bias", filled(tensor_named(run.plan(), "down.bias").type,
                                       [](int64_t i) { return static_cast<float>(i + 1); }));
    run.keep("down");
    run.train_step(fixed_batch(run.plan()));
    for (const EveryRank::Part& part : run.parts("down")) {
      for (size_t i = 0; i < part.values.size(); ++i) CHECK(part.values.f32[i] == static_cast<float>(i % 5 + 1));
    }
  }
  // A plan that adds it before the sum is refused, for it would add it twice.
  Plan faulty = with_early_bias(plan_of(model, on("tp=2")));
  CHECK(refusal(model, faulty) != "");
  CHECK(proof_flaw(model, faulty).find("\"down.bias\"") != std::string::npos);
  CHECK(numeric_difference(model, faulty) != "");
  EveryRank run(faulty);
  run.set_tensor("down.bias", filled({DType::kF32, {5}}, [](int64_t i) { return static_cast<float>(i + 1); }));
  run.keep("down");
  run.train_step(fixed_batch(faulty));
  CHECK(run.parts("down")[0].values.f32[3] == 8.0F);
}

TEST_CASE("B032: the ranks of a tensor-parallel group work on one batch") {
  FaultModel model = shipped("tiny_gpt", {{"seq", 8}, {"hidden", 16}, {"head_dim", 2}, {"ffn", 24}});
  for (const MeshCase& mesh : {on("tp=4"), on("dp=2,tp=2"), on("tp=2", true)}) {
    CAPTURE(mesh.name);
    EveryRank run(plan_of(model, mesh));
    Batch batch = fixed_batch(run.plan());
    run.train_step(batch);
    for (const char* input : {"tokens", "targets"}) {
      CHECK(run.unequal_replicas(input) == "");
      for (const EveryRank::Part& part : run.parts(input)) {
        const std::vector<Interval>& held = part.region.dims;
        size_t at = 0;
        for (int64_t row = held[0].begin; row < held[0].end; ++row) {
          for (int64_t s = held[1].begin; s < held[1].end; ++s) {
            CHECK(part.values.i32[at++] == batch.at(input).i32[static_cast<size_t>(row * 8 + s)]);
          }
        }
      }
    }
  }
}

TEST_CASE("B050: joined, sliced and turned along a split dimension, on two mesh axes, every element is one rank's") {
  FaultModel model{kJoined, {}};
  for (const MeshCase& mesh :
       {on("dp=4,tp=2"), on("dp=2,tp=2"), on("tp=3"), searched_on("dp=2,tp=2"), searched_on("tp=4")}) {
    CAPTURE(mesh.name);
    CHECK(difference_from_one_rank(model, mesh) == "");
    // Ones joined to ones stay ones; numbered elements stay in their order.
    EveryRank run(plan_of(model, mesh));
    run.keep("plain");
    Batch batch = fixed_batch(run.plan());
    for (bool is_numbered : {false, true}) {
      auto value = [&](int64_t row, int64_t column) {
        return is_numbered ? static_cast<float>(row * 16 + column) : 1.0F;
      };
      batch.at("a") = filled(batch.at("a").type, [&](int64_t i) { return value(i / 4, i % 4); });
      batch.at("b") = filled(batch.at("b").type, [&](int64_t i) { return value(i / 12, 4 + i % 12); });
      run.train_step(batch);
      HostTensor whole = filled({DType::kF32, {8, 16}}, [&](int64_t i) { return value(i / 16, i % 16); });
      for (const EveryRank::Part& part : run.parts("plain")) CHECK(part.values.f32 == cut(whole, part.region));
    }
  }
}

}  // namespace tpc::testing

// Gradients that were wrong on some ranks of other systems, or not the same on all.
#include <doctest/doctest.h>

#include <cmath>

#include "passes/build_backward.h"
#include "passes/infer_types.h"
#include "passes/solver/pruned_elimination.h"
#include "passes/strategies/search.h"
#include "passes/strategies/search_network.h"
#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

const std::map<std::string, int64_t> kSmall{{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"head_dim", 3}, {"ffn", 21}};

/// Query and key norms as in Qwen 3: over the elements of a head, the same weights for all heads.
constexpr const char* kHeadNorms = R"({"format": "tpc-model", "version": 1, "name": "head_norms",
"dims": {"batch": 4, "seq": 6, "vocab": 13, "hidden": 10, "heads": 4, "kv_heads": 2, "head_dim": 6},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "embed", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"], "init": {"normal": 1}},
 {"name": "norm", "op": "rms_norm", "input": "embed"},
 {"name": "q", "op": "linear", "input": "norm", "out": ["heads", "head_dim"]},
 {"name": "k", "op": "linear", "input": "norm", "out": ["kv_heads", "head_dim"]},
 {"name": "v", "op": "linear", "input": "norm", "out": ["kv_heads", "head_dim"]},
 {"name": "q_norm", "op": "rms_norm", "input": "q"},
 {"name": "k_norm", "op": "rms_norm", "input": "k"},
 {"name": "attn", "op": "attention", "inputs": ["q_norm", "k_norm", "v"], "causal": true},
 {"name": "o", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]},
 {"name": "res", "op": "add", "inputs": ["embed", "o"]},
 {"name": "norm_f", "op": "rms_norm", "input": "res"},
 {"name": "head", "op": "linear", "input": "norm_f", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "head", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "adamw", "lr": 0.01}})";

/// Query and key norms as in OLMo 2: over all heads together, a dimension that tensor parallelism would split.
constexpr const char* kWholeNorms = R"({"format": "tpc-model", "version": 1, "name": "whole_norms",
"dims": {"batch": 4, "seq": 6, "vocab": 13, "hidden": 10, "heads": 4, "head_dim": 6, "width": 24},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "embed", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"], "init": {"normal": 1}},
 {"name": "q", "op": "linear", "input": "embed", "out": ["width"]},
 {"name": "k", "op": "linear", "input": "embed", "out": ["width"]},
 {"name": "v", "op": "linear", "input": "embed", "out": ["heads", "head_dim"]},
 {"name": "q_norm", "op": "rms_norm", "input": "q"},
 {"name": "k_norm", "op": "rms_norm", "input": "k"},
 {"name": "q_heads", "op": "reshape", "input": "q_norm", "shape": ["batch", "seq", "heads", "head_dim"]},
 {"name": "k_heads", "op": "reshape", "input": "k_norm", "shape": ["batch", "seq", "heads", "head_dim"]},
 {"name": "attn", "op": "attention", "inputs": ["q_heads", "k_heads", "v"], "causal": true},
 {"name": "o", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]},
 {"name": "res", "op": "add", "inputs": ["embed", "o"]},
 {"name": "head", "op": "linear", "input": "res", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "head", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "adamw", "lr": 0.01}})";

/// Two blocks of one shape; only the second is trained.
constexpr const char* kFrozenBlock = R"({"format": "tpc-model", "version": 1, "name": "frozen_block",
"dims": {"batch": 4, "seq": 6, "vocab": 13, "hidden": 12, "heads": 4, "head_dim": 3, "ffn": 20},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "embed", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"], "trainable": false},
 {"name": "a_qkv", "op": "linear", "input": "embed", "out": [3, "heads", "head_dim"], "trainable": false},
 {"name": "a_attn", "op": "attention", "input": "a_qkv"},
 {"name": "a_proj", "op": "linear", "input": "a_attn", "contract": ["heads", "head_dim"], "out": ["hidden"], "trainable": false},
 {"name": "a_up", "op": "linear", "input": "a_proj", "out": ["ffn"], "trainable": false},
 {"name": "a_act", "op": "gelu", "input": "a_up"},
 {"name": "a_down", "op": "linear", "input": "a_act", "out": ["hidden"], "trainable": false},
 {"name": "b_qkv", "op": "linear", "input": "a_down", "out": [3, "heads", "head_dim"]},
 {"name": "b_attn", "op": "attention", "input": "b_qkv"},
 {"name": "b_proj", "op": "linear", "input": "b_attn", "contract": ["heads", "head_dim"], "out": ["hidden"]},
 {"name": "b_up", "op": "linear", "input": "b_proj", "out": ["ffn"]},
 {"name": "b_act", "op": "gelu", "input": "b_up"},
 {"name": "b_down", "op": "linear", "input": "b_act", "out": ["hidden"]},
 {"name": "head", "op": "linear", "input": "b_down", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "head", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "adamw", "lr": 0.01}})";

bool says(const std::string& message, const std::string& words) { return message.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("B001: under sequence parallelism every norm's gradient is the same on all ranks, the final norm's too") {
  FaultModel model = shipped("tiny_gpt", kSmall);
  for (const MeshCase& mesh : {on("tp=2", true), on("tp=4", true), on("dp=2,tp=2", true)}) {
    CAPTURE(mesh.name);
    EveryRank run(plan_of(model, mesh));
    std::map<std::string, std::string> read = gradients(run.plan());
    for (const auto& [parameter, gradient] : read) run.keep(gradient);
    run.train_step(fixed_batch(run.plan()));
    for (const char* norm : {"ln_f.weight", "ln_f.bias", "block0.ln1.weight", "block1.ln2.bias"}) {
      REQUIRE(read.count(norm) == 1);
      CHECK(tensor_named(run.plan(), read.at(norm)).sharding.is_replicated());
    }
    for (const auto& [parameter, gradient] : read) CHECK(run.unequal_replicas(gradient) == "");
    CHECK(difference_from_one_rank(model, mesh) == "");
  }
}

TEST_CASE("B002: a norm's gradient that is not reduced, or twice, is refused, and one step shows it") {
  FaultModel model = shipped("tiny_gpt", kSmall);
  Plan plan = plan_of(model, on("tp=2", true));
  int num_norms = 0;
  for (const auto& [parameter, read] : gradients(plan)) {
    CAPTURE(parameter);
    std::string gradient = "grad." + parameter;
    if (!tensor_named(plan, gradient).sharding.has_partial()) continue;
    std::vector<size_t> reductions = collectives_of(plan, gradient);
    REQUIRE(reductions.size() == 1);
    num_norms += parameter.find("ln") == std::string::npos ? 0 : 1;

    Plan once_less = without_move(plan, reductions[0]);
    CHECK(says(refusal(model, once_less), "does not allow the placements"));
    CHECK(says(proof_flaw(model, once_less), "is not linear in \"" + gradient + "\""));

    Plan once_more = plan;
    PlanStep second = plan.steps[reductions[0]];
    second.operands = second.results;
    once_more.tensors.push_back(tensor_named(plan, read));
    second.results = {static_cast<int>(once_more.tensors.size()) - 1};
    once_more.steps.insert(once_more.steps.begin() + static_cast<std::ptrdiff_t>(reductions[0]) + 1, second);
    CHECK(refusal(model, once_more) != "");
    CHECK(says(proof_flaw(model, once_more), "it would count 2 times"));
  }
  CHECK(num_norms == 10);
  for (const char* norm : {"block0.ln1.weight", "block1.ln2.bias", "ln_f.weight"}) {
    CAPTURE(std::string(norm));
    EveryRank run(without_move(plan, collectives_of(plan, std::string("grad.") + norm)[0]));
    run.train_step(fixed_batch(plan));
    CHECK(numeric_difference(model, run.plan()) != "");
    // AdamW's first step may hide it from the weight, which moves by lr in the gradient's direction, not from its mean.
    CHECK(run.unequal_replicas(std::string(norm) + ".m") != "");
  }
}

TEST_CASE("B003: replicated query and key norms stay the same bits on all ranks") {
  for (const char* text : {kHeadNorms, kWholeNorms}) {
    FaultModel model{text, {}};
    for (const MeshCase& mesh : {on("tp=2"), on("tp=4"), on("tp=2", true), on("dp=2,tp=2"), searched_on("tp=2")}) {
      CAPTURE(mesh.name);
      EveryRank run(plan_of(model, mesh));
      REQUIRE(find_tensor(run.plan(), "q_norm.weight") >= 0);
      for (int step = 0; step < 5; ++step) run.train_step(fixed_batch(run.plan()));
      CHECK(run.unequal_replicas() == "");
      CHECK(difference_from_one_rank(model, mesh) == "");
    }
  }
}

TEST_CASE("B003: whatever the model and the mesh, replicas stay the same bits") {
  std::map<std::string, int64_t> gpt = kSmall, llama = kSmall;
  gpt["heads"] = 8;
  llama["head_dim"] = 4;
  const std::pair<const char*, std::map<std::string, int64_t>> models[] = {
      {"small_gpt", gpt}, {"tiny_gpt", gpt}, {"llama_tiny", llama}, {"mlp", {{"batch", 6}}}};
  for (const auto& [name, dims] : models) {
    FaultModel model = shipped(name, dims);
    for (const MeshCase& mesh : megatron_cases()) {
      CAPTURE(std::string(name));
      CAPTURE(mesh.name);
      EveryRank run(plan_of(model, mesh));
      Batch batch = fixed_batch(run.plan());
      for (int step = 0; step < 3; ++step) run.train_step(batch);
      CHECK(run.unequal_replicas() == "");
    }
  }
}

TEST_CASE("B004: gradients of shared key and value heads are summed over the ranks that share them, once") {
  struct Case {
    int64_t kv_heads;
    const char* mesh;
  };
  for (const Case& c : {Case{1, "tp=2"}, Case{1, "tp=4"}, Case{2, "tp=4"}}) {
    CAPTURE(c.kv_heads);
    CAPTURE(c.mesh);
    FaultModel model = shipped(
        "llama_tiny", {{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"ffn", 21}, {"heads", 4}, {"kv_heads", c.kv_heads}});
    CHECK(difference_from_one_rank(model, on(c.mesh)) == "");
    Plan plan = plan_of(model, on(c.mesh));
    for (const char* weight : {"block0.k.weight", "block1.v.weight"}) {
      std::vector<size_t> reductions = collectives_of(plan, std::string("grad.") + weight);
      REQUIRE(reductions.size() == 1);
      const PlanStep& step = plan.steps[reductions[0]];
      CHECK(plan.mesh.group_size(step.attributes.get_ints("axes")) == plan.mesh.world_size() / c.kv_heads);
      CHECK(proof_flaw(model, without_move(plan, reductions[0])) != "");
      CHECK(numeric_difference(model, without_move(plan, reductions[0])) != "");
    }
  }
}

TEST_CASE("B008: ranks that do not hold the target's logit have the softmax as their gradient") {
  FaultModel model = shipped("tiny_gpt", {{"seq", 4}, {"vocab", 8}, {"hidden", 12}, {"head_dim", 3}, {"ffn", 21}});
  EveryRank run(plan_of(model, on("tp=2")));
  run.keep("head");
  run.keep("grad.head");
  Batch batch = fixed_batch(run.plan());
  // Every target lies in the second half of the vocabulary.
  std::vector<int32_t>& targets = batch.at("targets").i32;
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = 4 + static_cast<int32_t>(i % 4);
  run.train_step(batch);
  std::vector<EveryRank::Part> logits = run.parts("head"), gradient = run.parts("grad.head");
  for (size_t token = 0; token < targets.size(); ++token) {
    double sum = 0;
    for (const EveryRank::Part& part : logits) {
      for (size_t v = 0; v < 4; ++v) sum += std::exp(static_cast<double>(part.values.f32[token * 4 + v]));
    }
    for (size_t rank = 0; rank < 2; ++rank) {
      for (size_t v = 0; v < 4; ++v) {
        double softmax = std::exp(static_cast<double>(logits[rank].values.f32[token * 4 + v])) / sum;
        double target = static_cast<size_t>(targets[token]) == rank * 4 + v ? 1 : 0;
        double wanted = (softmax - target) / static_cast<double>(targets.size());
        CHECK(static_cast<double>(gradient[rank].values.f32[token * 4 + v]) == doctest::Approx(wanted).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("B010: whatever placement one layer leaves and the next one takes, gradients are those of one rank") {
  const std::string first = R"("name": "a", "op": "linear", "input": "x", "out": ["ffn"])";
  const std::string second = R"("name": "b", "op": "linear", "input": "a", "out": ["hidden"])";
  FaultModel model{R"({"format": "tpc-model", "version": 1, "name": "transitions",
"dims": {"batch": 4, "seq": 5, "hidden": 6, "ffn": 7},
"inputs": {"x": {"shape": ["batch", "seq", "hidden"], "dtype": "float32"}, "y": {"shape": ["batch", "seq", "hidden"], "dtype": "float32"}},
"layers": [
 {)" + first + R"(},
 {)" + second + R"(},
 {"name": "loss", "op": "mean_squared_error", "input": "b", "targets": "y"}],
"loss": "loss", "optimizer": {"type": "sgd", "lr": 0.1}})",
                   {}};
  auto word = [](const std::string& layer) { return '"' + layer + '"'; };
  auto pin = [](const std::string& use, const std::string& placement) {
    return "{\"" + use + "\": \"" + placement + "\"}";
  };
  // "row" leaves a sum, so that a Partial is met as well.
  const std::string left[] = {word("column"),
                              word("row"),
                              word("replicate"),
                              pin("output", "R"),
                              pin("output", "S(batch)"),
                              pin("output", "S(seq)"),
                              pin("output", "S(ffn)")};
  const std::string taken[] = {word("column"),         word("row"),
                               pin("input", "R"),      pin("input", "S(batch)"),
                               pin("input", "S(seq)"), pin("input", "S(ffn)")};
  int trained = 0;
  for (const std::string& from : left) {
    for (const std::string& to : taken) {
      FaultModel pinned =
          with(with(model, first, first + R"(, "shard": )" + from), second, second + R"(, "shard": )" + to);
      for (const char* mesh : {"tp=2", "tp=3", "tp=4"}) {
        CAPTURE(from);
        CAPTURE(to);
        CAPTURE(mesh);
        if (compile_error(pinned, on(mesh)) != "") continue;
        CHECK(difference_from_one_rank(pinned, on(mesh), 1) == "");
        ++trained;
      }
    }
  }
  CHECK(trained == 7 * 6 * 3);
}

TEST_CASE("B011: a frozen block before one of the same shapes that is trained: with and without reuse, one plan") {
  FaultModel model{kFrozenBlock, {}};
  for (const MeshCase& mesh : {on("tp=4"), on("dp=2,tp=2"), searched_on("tp=4"), searched_on("dp=2,tp=2")}) {
    CAPTURE(mesh.name);
    CHECK(difference_from_one_rank(model, mesh) == "");
    Plan plan = plan_of(model, mesh);
    CHECK(gradients(plan).count("a_up.weight") == 0);
    CHECK(gradients(plan).count("b_up.weight") == 1);
  }
  DiagnosticSink sink;
  CompileOptions options;
  options.mesh = *parse_mesh("tp=4");
  options.strategy = "search";
  Graph graph = one_rank_step(model);
  graph.mesh = search_mesh(graph, options.mesh, options);
  NodeRules rules(graph);
  SearchSpace space(graph, rules, options.search);
  SearchNetwork network(graph, space, MovePrice());
  CostNetwork costs = network.network(kCheapest, network.norm_way(0));
  CHECK(solve(costs).assignment == solve(costs, {.reuse_buckets = false}).assignment);
}

TEST_CASE("B012: both uses of a tied table are summed before its gradient is scattered over dp") {
  FaultModel model =
      shipped("tiny_gpt", {{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"head_dim", 3}, {"ffn", 21}, {"layers", 1}});
  for (int stage : {0, 1, 2, 3}) {
    for (const char* mesh : {"dp=2", "dp=2,tp=2", "dp=4,tp=2"}) {
      CAPTURE(stage);
      CAPTURE(mesh);
      CHECK(difference_from_one_rank(model, on(mesh, false, stage)) == "");
      Plan plan = plan_of(model, on(mesh, false, stage));
      EveryRank run(plan);
      run.train_step(fixed_batch(plan));
      CHECK(run.unequal_replicas() == "");
      // One use left out: the sum reads the other twice.
      std::vector<size_t> sums = find_steps(plan, [&](const PlanStep& step) {
        return step.op == OpKind::kAdd && step.results[0] == find_tensor(plan, "grad.embed.weight");
      });
      REQUIRE(sums.size() == 1);
      plan.steps[sums[0]].operands[0] = plan.steps[sums[0]].operands[1];
      CHECK(proof_flaw(model, plan) != "");
      CHECK(numeric_difference(model, plan) != "");
    }
  }
}

TEST_CASE("B013: a tied weight is one parameter with one state, stepped once") {
  FaultModel model = shipped("tiny_gpt", kSmall);
  for (const MeshCase& mesh :
       {on("tp=1"), on("tp=2"), on("tp=3", true), on("dp=2,tp=2", false, 3), searched_on("tp=3")}) {
    CAPTURE(mesh.name);
    Plan plan = plan_of(model, mesh);
    int states = 0, tables = 0;
    for (const PlanTensor& tensor : plan.tensors) {
      states += tensor.role == TensorRole::kState && tensor.name.starts_with("embed.") ? 1 : 0;
      tables += tensor.role == TensorRole::kParameter && tensor.type.shape == Shape{19, 12} ? 1 : 0;
    }
    CHECK(states == 2);
    CHECK(tables == 1);
    CHECK(find_tensor(plan, "head.weight") == -1);
    CHECK(find_steps(plan, [&](const PlanStep& step) {
            return step.op == OpKind::kUpdate && step.operands[0] == find_tensor(plan, "embed.weight");
          }).size() == 1);
    CHECK(difference_from_one_rank(model, mesh, 3) == "");
  }
}

TEST_CASE("B023: the loss's gradient of the hidden state is reduced once, and the plan says where") {
  FaultModel model = shipped("tiny_gpt", kSmall);
  for (const MeshCase& mesh : {on("tp=2"), on("tp=3", true)}) {
    CAPTURE(mesh.name);
    Plan plan = plan_of(model, mesh);
    const PlanTensor& gradient = tensor_named(plan, "grad.ln_f");
    CHECK(gradient.sharding.has_partial());
    std::vector<size_t> reductions = collectives_of(plan, "grad.ln_f");
    REQUIRE(reductions.size() == 1);
    CHECK(refusal(model, without_move(plan, reductions[0])) != "");
    CHECK(numeric_difference(model, without_move(plan, reductions[0])) != "");
    // What the ranks hold adds up to the whole, and none holds it: as declared.
    EveryRank run(plan), single(plan_of(model, on("tp=1")));
    run.keep("grad.ln_f");
    single.keep("grad.ln_f");
    Batch batch = fixed_batch(plan);
    run.train_step(batch);
    single.train_step(batch);
    std::vector<float> whole = single.parts("grad.ln_f")[0].values.f32;
    std::vector<EveryRank::Part> parts = run.parts("grad.ln_f");
    double largest = 0, apart = 0;
    for (float value : whole) largest = std::max(largest, std::abs(static_cast<double>(value)));
    for (size_t i = 0; i < whole.size(); ++i) {
      double sum = 0;
      for (const EveryRank::Part& part : parts) sum += static_cast<double>(part.values.f32[i]);
      CHECK(std::abs(sum - static_cast<double>(whole[i])) < 1e-5 * largest);
      apart = std::max(apart, std::abs(static_cast<double>(parts[0].values.f32[i] - whole[i])));
    }
    CHECK(apart > 0.1 * largest);
  }
}

}  // namespace tpc::testing

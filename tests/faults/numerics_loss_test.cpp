// Losses that depended on how logits or labels lay on the ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/plan/plan_json.h"
#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

const std::map<std::string, int64_t> kSmall{{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"head_dim", 3}, {"ffn", 21}};

/// Losses of `steps` steps on the fixed batch.
std::vector<double> losses_of(const FaultModel& model, const MeshCase& mesh, int steps) {
  EveryRank run(plan_of(model, mesh));
  Batch batch = fixed_batch(run.plan());
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    run.train_step(batch);
    losses.push_back(static_cast<double>(run.loss()));
  }
  return losses;
}

void check_same_losses(const FaultModel& model, std::initializer_list<const char*> meshes, int steps) {
  std::vector<double> wanted = losses_of(model, on("tp=1"), steps);
  for (const char* mesh : meshes) {
    CAPTURE(mesh);
    std::vector<double> found = losses_of(model, on(mesh), steps);
    for (size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 1e-5);
  }
}

/// The plan with `name` gathered before the vocabulary-parallel loss reads it, and all else as it was.
Plan with_gathered(Plan plan, const std::string& name) {
  int logits = find_tensor(plan, name);
  PlanTensor whole = plan.tensors[static_cast<size_t>(logits)];
  whole.name += "@[R]";
  whole.sharding = TensorSharding::replicated(plan.mesh);
  whole.offset = plan.arena_bytes;
  whole.bytes = num_elements(whole.type.shape) * 4;
  plan.arena_bytes += (whole.bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  plan.tensors.push_back(whole);
  int gathered = static_cast<int>(plan.tensors.size()) - 1;
  size_t made = find_steps(plan, [&](const PlanStep& s) { return !s.results.empty() && s.results[0] == logits; })[0];
  for (PlanStep& step : plan.steps) {
    if (step.op != OpKind::kRowMax && step.op != OpKind::kSoftmaxStats) continue;
    step.operands[0] = gathered;
  }
  PlanStep gather = plan.steps[made];
  gather.op = OpKind::kAllGather;
  gather.operands = {logits};
  gather.results = {gathered};
  gather.attributes = {{"axes", std::vector<int64_t>{0}}};
  plan.steps.insert(plan.steps.begin() + static_cast<std::ptrdiff_t>(made) + 1, gather);
  return plan;
}

}  // namespace

TEST_CASE("B015: gathered logits into the vocabulary-parallel loss are refused: they would count once per rank") {
  FaultModel model = shipped("tiny_gpt", kSmall);
  Plan plan = plan_of(model, on("tp=2"));
  Plan faulty = with_gathered(plan, "head");
  CHECK(refusal(model, faulty).find("does not allow the placements") != std::string::npos);
  CHECK(proof_flaw(model, faulty).find("every rank holds all of \"loss.max\"") != std::string::npos);
  CHECK(numeric_difference(model, plan) == "");
  CHECK(numeric_difference(model, faulty) != "");
  // What it would have done: sums over the vocabulary twice what they are, which is a loss that looks like one.
  EveryRank right(plan), wrong(faulty);
  for (EveryRank* run : {&right, &wrong}) {
    run->keep("loss.stats@[R]");
    run->train_step(fixed_batch(plan));
  }
  std::vector<float> sums = right.parts("loss.stats@[R]")[0].values.f32;
  std::vector<float> doubled = wrong.parts("loss.stats@[R]")[0].values.f32;
  for (size_t i = 0; i < sums.size() / 2; ++i) {
    CHECK(std::log(doubled[i] / sums[i]) == doctest::Approx(std::log(2.0)).epsilon(1e-4));
  }
  CHECK(std::isfinite(wrong.loss()));
}

TEST_CASE("B017: an ordinary cross entropy on a column-parallel head is right, whatever was compiled before") {
  FaultModel model =
      with(shipped("llama_tiny", {{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"ffn", 21}}),
           R"("input": "norm_f", "out": ["vocab"])", R"("input": "norm_f", "out": ["vocab"], "shard": "column")");
  std::string first = write_plan(plan_of(model, on("tp=2")));
  plan_of(shipped("mlp"), on("tp=3"));
  plan_of(model, searched_on("dp=2,tp=2"));
  plan_of(with(model, R"("shard": "column")", R"("shard": "replicate")"), on("tp=2"));
  CHECK(write_plan(plan_of(model, on("tp=2"))) == first);
  CHECK(tensor_named(plan_of(model, on("tp=2")), "head").sharding.placements[0].is_shard_of(2));
  CHECK(difference_from_one_rank(model, on("tp=2")) == "");
  CHECK(difference_from_one_rank(model, on("tp=3")) == "");
}

TEST_CASE("B019: a vocabulary that no tp divides gives one rank's losses, 50 steps on") {
  FaultModel model = shipped("tiny_gpt", {{"seq", 8}, {"hidden", 16}, {"head_dim", 2}, {"ffn", 24}, {"vocab", 7}});
  check_same_losses(model, {"tp=2", "tp=3", "tp=4", "tp=7"}, 50);
  model.dims["vocab"] = 50257;
  model.dims["layers"] = 1;
  model.dims["batch"] = 1;
  model.dims["seq"] = 4;
  model.dims["hidden"] = 4;
  check_same_losses(model, {"tp=2", "tp=3", "tp=4", "tp=7"}, 50);
  // No row is a pad: the ranks' rows are the vocabulary, each row once.
  Plan plan = plan_of(model, on("tp=7"));
  const PlanTensor& table = tensor_named(plan, "embed.weight");
  int64_t rows = 0;
  for (int64_t rank = 0; rank < 7; ++rank) {
    Interval held = local_region(table.type.shape, table.sharding, plan.mesh, plan.mesh.coordinate(rank)).dims[0];
    CHECK(held.begin == rows);
    rows = held.end;
  }
  CHECK(rows == 50257);
}

TEST_CASE("B020: ranks with few valid labels weigh no more than their labels") {
  FaultModel model =
      shipped("tiny_gpt", {{"batch", 2}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"head_dim", 3}, {"ffn", 21}});
  auto train = [&](const MeshCase& mesh) {
    ReferenceExecutor executor(compile_text(model.text, "model.json", model.dims, mesh).graph);
    executor.set_parameters(3);
    TensorType ids{DType::kI32, {2, 8}};
    executor.set_leaf("tokens", random_integer_tensor(ids, 1, "tokens", 0, 19));
    GlobalTensor targets = random_integer_tensor(ids, 1, "targets", 0, 19);
    // One valid label in the first row, seven in the second: on dp 2 a row is a rank's.
    for (size_t i = 1; i < 8; ++i) targets.data[i] = -100;
    targets.data[8] = -100;
    executor.set_leaf("targets", targets);
    executor.run_step({1, 0});
    return executor;
  };
  ReferenceExecutor single = train(on("tp=1"));
  for (const MeshCase& mesh : {on("dp=2"), on("dp=2,tp=2"), on("dp=2", false, 2), on("dp=2,tp=2", true)}) {
    CAPTURE(mesh.name);
    ReferenceExecutor found = train(mesh);
    CHECK(std::abs(found.output("loss").data[0] - single.output("loss").data[0]) < 1e-12);
    for (const char* gradient : {"grad.embed.weight", "grad.block0.fc1.weight", "grad.ln_f.bias"}) {
      CHECK(relative_difference(found.value(gradient), single.value(gradient)) < 1e-12);
    }
  }
}

TEST_CASE("B020: ranks without any valid label, and batches without any, leave finite weights") {
  FaultModel model =
      with(shipped("tiny_gpt", {{"batch", 2}, {"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"head_dim", 3}, {"ffn", 21}}),
           R"("weight_decay": 0.01})", R"("weight_decay": 0.01, "clip_norm": 1})");
  for (const MeshCase& mesh : {on("tp=1"), on("dp=2"), on("dp=2,tp=2"), on("tp=3", true)}) {
    CAPTURE(mesh.name);
    EveryRank run(plan_of(model, mesh));
    Batch batch = fixed_batch(run.plan());
    std::vector<int32_t>& targets = batch.at("targets").i32;
    std::fill(targets.begin() + 8, targets.end(), -100);
    run.train_step(batch);
    CHECK(run.loss() > 1);
    std::fill(targets.begin(), targets.end(), -100);
    run.train_step(batch);
    CHECK(run.loss() == 0);
    for (const auto& [parameter, gradient] : gradients(run.plan())) {
      for (const EveryRank::Part& part : run.parts(parameter)) {
        CHECK(std::all_of(part.values.f32.begin(), part.values.f32.end(), [](float w) { return std::isfinite(w); }));
      }
    }
    CHECK(run.unequal_replicas() == "");
  }
}

}  // namespace tpc::testing

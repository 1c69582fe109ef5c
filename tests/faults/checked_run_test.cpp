// Faults of other systems as `tprun --check` tells them, planted in plans and in what single ranks hold.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/check/double_run.h"
#include "runtime/check/model_step.h"
#include "tests/faults/fault_model.h"
#include "tests/support/run_check.h"

namespace tpc::testing {
namespace {

/// Small enough to be checked some hundred times.
const std::map<std::string, int64_t> kLeast{{"batch", 2}, {"seq", 4},      {"vocab", 7}, {"hidden", 8},
                                            {"heads", 4}, {"head_dim", 2}, {"ffn", 8},   {"layers", 1}};

bool says(const std::string& message, const std::string& words) { return message.find(words) != std::string::npos; }

/// Index of the one step that `wanted` holds of.
int the_step(const Plan& plan, const std::function<bool(const PlanStep&)>& wanted) {
  std::vector<size_t> steps = find_steps(plan, wanted);
  REQUIRE(steps.size() == 1);
  return static_cast<int>(steps[0]);
}

int maker_of(const Plan& plan, int tensor) {
  return the_step(plan, [&](const PlanStep& step) {
    return std::find(step.results.begin(), step.results.end(), tensor) != step.results.end();
  });
}

/// Whether several ranks hold the same part of the tensor.
bool has_replicas(const Plan& plan, const PlanTensor& tensor) {
  for (size_t axis = 0; axis < plan.mesh.num_axes(); ++axis) {
    if (plan.mesh.axis_size(axis) > 1 && tensor.sharding.placements[axis].is_replicate()) return true;
  }
  return false;
}

/// Adds to the elements from `first` on, every `stride`-th.
std::function<void(const Elements&)> add_to(size_t first, size_t stride, double amount) {
  return [=](const Elements& elements) {
    std::visit(
        [&](auto values) {
          using Value = typename decltype(values)::value_type;
          using Wide = std::conditional_t<std::is_same_v<Value, BFloat16>, float, Value>;
          for (size_t i = first; i < values.size(); i += stride)
            values[i] = static_cast<Value>(static_cast<Wide>(values[i]) + static_cast<Wide>(amount));
        },
        elements);
  };
}

}  // namespace

TEST_CASE("B002: a checked run names the gradient that is not reduced") {
  FaultModel model = shipped("tiny_gpt", kLeast);
  Plan plan = plan_of(model, on("tp=2", true));
  int num_norms = 0;
  for (const auto& [parameter, read] : gradients(plan)) {
    CAPTURE(parameter);
    const std::string gradient = "grad." + parameter;
    if (!tensor_named(plan, gradient).sharding.has_partial()) continue;
    num_norms += parameter.find("ln") == std::string::npos ? 0 : 1;
    int tensor = find_tensor(plan, gradient);
    Plan left_out = without_move(plan, collectives_of(plan, gradient).at(0));
    int optimizer = the_step(
        left_out, [&](const PlanStep& step) { return step.op == OpKind::kAdamW && step.operands[1] == tensor; });
    // The same, and each rank's part of the sum is called the gradient: what a hook that never ran leaves behind.
    Plan called_whole = left_out;
    called_whole.tensors[static_cast<size_t>(tensor)].sharding = tensor_named(plan, read).sharding;
    for (const MakeRun& make_run : {trained(), in_double()}) {
      Diagnostic report = check_run(left_out, make_run);
      CHECK(report.loc.pointer == fmt::format("/steps/{}", optimizer));
      CHECK(says(report.message, fmt::format("(adamw, optimizer): \"{}.", parameter)));

      report = check_run(called_whole, make_run);
      CHECK(report.loc.pointer == fmt::format("/steps/{}", maker_of(plan, tensor)));
      CHECK(says(report.message, fmt::format("backward): \"{}\"[", gradient)));
      CHECK(says(report.message, "on 2 of 2 ranks"));
      CHECK(has_note(report, "which must hold the same bits"));
    }
  }
  CHECK(num_norms == 6);
}

TEST_CASE("B003: a checked run refuses replicas that differ in one bit") {
  for (const MeshCase& mesh : {on("tp=2"), on("dp=2,tp=2", true)}) {
    CAPTURE(mesh.name);
    Plan plan = plan_of(shipped("tiny_gpt", kLeast), mesh);
    int64_t last = plan.mesh.world_size() - 1;
    int num_made = 0, num_kept = 0;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      auto step = static_cast<int>(i);
      for (int made : plan.steps[i].results) {
        const PlanTensor& tensor = plan.tensors[static_cast<size_t>(made)];
        if (!has_replicas(plan, tensor)) continue;
        CAPTURE(tensor.name);
        Diagnostic report = check_run(plan, tampered(in_double(), {last, made, step, flip_last_bit}));
        CHECK(report.loc.pointer == fmt::format("/steps/{}", step));
        const std::string same_bits = fmt::format("on rank {}, which must hold the same bits", last);
        CHECK((says(report.message, same_bits) || has_note(report, same_bits)));
        CHECK(says(report.message, fmt::format("): \"{}\"", tensor.name)));
        ++num_made;
      }
      if (plan.steps[i].op != OpKind::kUpdate) continue;
      int kept = plan.steps[i].operands[0];
      const PlanTensor& tensor = plan.tensors[static_cast<size_t>(kept)];
      CAPTURE(tensor.name);
      Diagnostic report = check_run(plan, tampered(in_double(), {last, kept, step, flip_last_bit}));
      CHECK(report.loc.pointer == fmt::format("/steps/{}", step));
      CHECK(says(report.message, fmt::format("): \"{}\"[", tensor.name)));
      CHECK(says(report.message, fmt::format("on rank {} after the step", last)));
      CHECK(says(report.message, fmt::format("differ on 1 of {} ranks", last + 1)));
      ++num_kept;
    }
    CHECK(num_made > 30);
    CHECK(num_kept > 30);
  }
}

TEST_CASE("B014: a checked run compares replicas before its first step") {
  FaultModel model = with(shipped("tiny_gpt", kLeast), R"("op": "linear", "input": "ln2")",
                          R"("op": "linear", "shard": "replicate", "input": "ln2")");
  Plan plan = plan_of(model, on("tp=2"));
  int num_replicas = 0;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    if (!is_learned(tensor) || !tensor.sharding.is_replicated()) continue;
    CAPTURE(tensor.name);
    ++num_replicas;
    for (const MakeRun& make_run : {trained(), in_double()}) {
      Diagnostic report = check_run(plan, tampered(make_run, {1, static_cast<int>(t), -1, flip_last_bit}));
      CHECK(report.loc.pointer == fmt::format("/tensors/{}", t));
      CHECK(says(report.message, fmt::format("in training step 0: \"{}\"[", tensor.name)));
      CHECK(says(report.message, "on rank 1 at the start"));
      CHECK(says(report.message, "; 1 of "));
      CHECK(says(report.message, "differ on 1 of 2 ranks"));
      CHECK(report.notes.empty());
    }
  }
  CHECK(num_replicas > 20);

  // A rank that draws with a seed of its own is told before a step of the plan that is wrong as well.
  int weight = find_tensor(plan, "block0.fc1.weight");
  REQUIRE(tensor_named(plan, "block0.fc1.weight").sharding.is_replicated());
  auto draw_anew = [&](const Elements& elements) {
    DoubleRun other(plan, /*seed=*/1);
    auto from = std::get<std::span<double>>(other.part(1, weight).elements);
    std::copy(from.begin(), from.end(), std::get<std::span<double>>(elements).begin());
  };
  int attention = the_step(plan, [](const PlanStep& step) { return step.op == OpKind::kAttention; });
  plan.steps[static_cast<size_t>(attention)].attributes.set("scale", 0.1);
  Diagnostic report = check_run(plan, tampered(in_double(), {1, weight, -1, draw_anew}));
  CHECK(report.loc.pointer == fmt::format("/tensors/{}", weight));
  CHECK(says(report.message, "64 of 128 elements differ on 1 of 2 ranks"));
  REQUIRE(!report.notes.empty());
  CHECK(report.notes[0].loc.pointer == fmt::format("/steps/{}", attention));
}

TEST_CASE("B019: a checked run finds no difference on odd vocabularies, and names the first tensor of a planted one") {
  FaultModel model =
      shipped("tiny_gpt",
              {{"batch", 2}, {"seq", 4}, {"vocab", 257}, {"hidden", 16}, {"head_dim", 2}, {"ffn", 24}, {"layers", 1}});
  for (const char* mesh : {"tp=2", "tp=3", "tp=4", "dp=2,tp=3"}) {
    CAPTURE(mesh);
    Plan plan = plan_of(model, on(mesh));
    CHECK(check_run(plan, trained(), 5).message == "");
    CHECK(check_run(plan, in_double(), 2).message == "");

    int64_t last = plan.mesh.world_size() - 1;
    int head = find_tensor(plan, "head"), stats = find_tensor(plan, "loss.stats");
    int64_t words = local_region(plan.tensors[static_cast<size_t>(head)].type.shape,
                                 tensor_named(plan, "head").sharding, plan.mesh, plan.mesh.coordinate(last))
                        .dims[2]
                        .size();
    REQUIRE(words == 257 / plan.mesh.axis_size(plan.mesh.num_axes() - 1));
    // The last word's logits, which only the last rank holds.
    auto stride = static_cast<size_t>(words);
    Tampering last_word{last, head, maker_of(plan, head), add_to(stride - 1, stride, 0.5)};
    // A pad that is counted as a word: exp(0 - max) more in every sum.
    Tampering pad{last, stats, maker_of(plan, stats), add_to(0, 2, 1)};
    for (const MakeRun& make_run : {trained(), in_double()}) {
      Diagnostic report = check_run(plan, tampered(make_run, last_word));
      CHECK(report.loc.pointer == fmt::format("/steps/{}", last_word.step));
      CHECK(says(report.message, ": \"head\"["));
      CHECK(says(report.message, ", 256] is "));
      CHECK(says(report.message, fmt::format("on rank {}, the model's", last)));

      report = check_run(plan, tampered(make_run, pad));
      CHECK(report.loc.pointer == fmt::format("/steps/{}", pad.step));
      CHECK(says(report.message, ": \"loss.stats\"["));
      CHECK(says(report.message, "summed over ranks"));
    }
  }
}

}  // namespace tpc::testing

// The check of a run against the model's: it raises no alarm where plans are right, and finds what is wrong where it
// is.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "compiler/plan/check_plan.h"
#include "runtime/check/checked_run.h"
#include "tests/support/program.h"
#include "tests/support/run_check.h"

namespace tpc::testing {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct SmallModel {
  const char* name;
  std::map<std::string, int64_t> dims;
};

const SmallModel kSmallGpt{"small_gpt",
                           {{"seq", 8}, {"vocab", 61}, {"hidden", 40}, {"head_dim", 5}, {"ffn", 77}, {"layers", 1}}};
const SmallModel kTinyGpt{"tiny_gpt",
                          {{"seq", 8}, {"vocab", 61}, {"hidden", 40}, {"head_dim", 5}, {"ffn", 77}, {"layers", 1}}};
const SmallModel kMlp{"mlp", {{"batch", 6}}};
const SmallModel kLlama{"llama_tiny",
                        {{"seq", 8}, {"vocab", 61}, {"hidden", 32}, {"head_dim", 4}, {"ffn", 77}, {"layers", 1}}};
/// Small enough to be run some hundred times.
const SmallModel kLeastGpt{
    "tiny_gpt",
    {{"batch", 2}, {"seq", 4}, {"vocab", 7}, {"hidden", 8}, {"heads", 4}, {"head_dim", 2}, {"ffn", 8}, {"layers", 1}}};

void check_agrees(const SmallModel& model, const std::vector<MeshCase>& meshes) {
  uint64_t seed = 0;
  for (const MeshCase& mesh : meshes) {
    CAPTURE(model.name);
    CAPTURE(mesh.name);
    ++seed;
    Plan plan = compile_model(model.name, model.dims, mesh).plan;
    CHECK(check_run(plan, trained(seed), 2, seed).message == "");
    CHECK(check_run(plan, in_double(seed), 1, seed).message == "");
  }
}

/// Ids, gates that open at zero, masks and a clipped gradient: where one rounding could change much.
constexpr const char* kKinks = R"({"format": "tpc-model", "version": 1, "name": "kinks",
"dims": {"batch": 4, "seq": 8, "vocab": 13, "hidden": 24, "ffn": 96},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "embed", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"]},
 {"name": "up", "op": "linear", "input": "embed", "out": ["ffn"]},
 {"name": "gate", "op": "relu", "input": "up"},
 {"name": "drop", "op": "dropout", "input": "gate", "rate": 0.3},
 {"name": "down", "op": "linear", "input": "drop", "out": ["hidden"], "bias": true},
 {"name": "sum", "op": "add", "inputs": ["embed", "down"]},
 {"name": "norm", "op": "layer_norm", "input": "sum"},
 {"name": "head", "op": "linear", "input": "norm", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "head", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "adamw", "lr": 0.1, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "clip_norm": 0.5}})";

using Visit = std::function<void(const Plan& faulty, size_t step, const std::string& what)>;

void swap_operands(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (size_t k = 0; k + 1 < plan.steps[i].operands.size(); ++k) {
      if (plan.steps[i].op == OpKind::kAdd || plan.steps[i].operands[k] == plan.steps[i].operands[k + 1]) continue;
      Plan faulty = plan;
      std::swap(faulty.steps[i].operands[k], faulty.steps[i].operands[k + 1]);
      visit(faulty, i, "swapped operands");
    }
  }
}

std::string_view without_conversion(const std::string& name) {
  return std::string_view(name).substr(0, name.find('@'));
}

/// Each operand by the last tensor of its kind that was made before and is another value.
void read_other_tensors(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (size_t k = 0; k < plan.steps[i].operands.size(); ++k) {
      int operand = plan.steps[i].operands[k];
      const PlanTensor& read = plan.tensors[static_cast<size_t>(operand)];
      int other = -1;
      for (size_t j = 0; j < i; ++j) {
        for (int made : plan.steps[j].results) {
          const PlanTensor& tensor = plan.tensors[static_cast<size_t>(made)];
          bool is_same_value = without_conversion(tensor.name) == without_conversion(read.name);
          if (!is_same_value && tensor.type == read.type && tensor.sharding == read.sharding) other = made;
        }
      }
      if (other < 0) continue;
      Plan faulty = plan;
      faulty.steps[i].operands[k] = other;
      visit(faulty, i, "reads " + plan.tensors[static_cast<size_t>(other)].name);
    }
  }
}

void change_attributes(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const auto& [name, value] : plan.steps[i].attributes.items()) {
      Attribute changed = value;
      if (bool* flag = std::get_if<bool>(&changed)) *flag = !*flag;
      if (int64_t* number = std::get_if<int64_t>(&changed)) ++*number;
      if (double* number = std::get_if<double>(&changed)) *number *= 0.5;
      if (name == "stream") changed = std::string("another");
      // The data ignore no label.
      if (changed == value || name == "ignore_index") continue;
      Plan faulty = plan;
      faulty.steps[i].attributes.set(name, changed);
      visit(faulty, i, "attribute " + name);
    }
  }
}

bool is_sound(const Plan& plan) {
  try {
    check_plan(plan, "plan.json");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// Every fault that a loaded plan can have is found, at its step; the second training step shows what zero states hide.
/// In f32 all but a change of what stands beside a much larger number.
void check_found(const Plan& plan) {
  int num_found = 0;
  auto visit = [&](const Plan& faulty, size_t step, const std::string& what) {
    if (!is_sound(faulty)) return;
    CAPTURE(what);
    CAPTURE(plan.steps[step].layer);
    std::string pointer = fmt::format("/steps/{}", step);
    CHECK(check_run(faulty, in_double(), 2).loc.pointer == pointer);
    bool is_small = what == "attribute eps" || what == "attribute weight_decay";
    if (!is_small) CHECK(check_run(faulty, trained(), 2).loc.pointer == pointer);
    ++num_found;
  };
  swap_operands(plan, visit);
  read_other_tensors(plan, visit);
  change_attributes(plan, visit);
  MESSAGE(num_found << " faults on " << to_string(plan.mesh));
}

/// Index of the first step of that op in that phase.
size_t find_step(const Plan& plan, OpKind op, Phase phase) {
  auto at = std::find_if(plan.steps.begin(), plan.steps.end(),
                         [&](const PlanStep& step) { return step.op == op && step.phase == phase; });
  REQUIRE(at != plan.steps.end());
  return static_cast<size_t>(at - plan.steps.begin());
}

/// What the all_reduce would add up is called whole, on every rank.
Plan without_all_reduce(const Plan& plan, size_t step) {
  Plan faulty = plan;
  auto from = static_cast<size_t>(plan.steps[step].operands[0]);
  auto to = static_cast<size_t>(plan.steps[step].results[0]);
  faulty.tensors[from].sharding = plan.tensors[to].sharding;
  faulty.steps.erase(faulty.steps.begin() + static_cast<std::ptrdiff_t>(step));
  for (PlanStep& s : faulty.steps) {
    std::replace(s.operands.begin(), s.operands.end(), static_cast<int>(to), static_cast<int>(from));
  }
  // Nothing may lie over it now.
  faulty.tensors[from].offset = faulty.arena_bytes;
  faulty.arena_bytes += (faulty.tensors[from].bytes + 63) / 64 * 64;
  return faulty;
}

/// The sum is summed again.
Plan with_second_all_reduce(const Plan& plan, size_t step) {
  Plan faulty = plan;
  PlanStep again = plan.steps[step];
  PlanTensor twice = plan.tensors[static_cast<size_t>(again.results[0])];
  twice.name += "~twice";
  auto added = static_cast<int>(faulty.tensors.size());
  faulty.tensors.push_back(twice);
  for (size_t i = step + 1; i < faulty.steps.size(); ++i) {
    std::replace(faulty.steps[i].operands.begin(), faulty.steps[i].operands.end(), again.results[0], added);
  }
  again.operands = again.results;
  again.results = {added};
  faulty.steps.insert(faulty.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1, again);
  return faulty;
}

MeshCase on(const char* mesh) { return {mesh, *parse_mesh(mesh)}; }

}  // namespace

TEST_CASE("the check of small_gpt agrees on every mesh") { check_agrees(kSmallGpt, mesh_cases()); }
TEST_CASE("the check of mlp agrees on every mesh") { check_agrees(kMlp, mesh_cases()); }
TEST_CASE("the check of tiny_gpt agrees on every mesh by the known rules") { check_agrees(kTinyGpt, megatron_cases()); }
TEST_CASE("the check of llama_tiny agrees on every mesh by the known rules") { check_agrees(kLlama, megatron_cases()); }

TEST_CASE("the check raises no alarm where one rounding could open a gate") {
  for (const char* mesh : {"tp=2", "tp=3", "dp=2,tp=2", "dp=4"}) {
    CAPTURE(mesh);
    Plan plan = compile_text(kKinks, "kinks.json", {}, on(mesh)).plan;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      CHECK(check_run(plan, trained(seed), 5, seed).message == "");
      CHECK(check_run(plan, in_double(seed), 2, seed).message == "");
    }
  }
}

TEST_CASE("the check finds every fault of a tensor-parallel plan at its step") {
  check_found(compile_model(kLeastGpt.name, kLeastGpt.dims, on("tp=2")).plan);
}

TEST_CASE("the check finds every fault of a plan on two axes at its step") {
  check_found(compile_text(kKinks, "kinks.json", {{"seq", 2}, {"hidden", 6}, {"ffn", 8}}, on("dp=2,tp=2")).plan);
}

TEST_CASE("an all_reduce left out is found where its sum is made, on all ranks") {
  Plan plan = compile_model(kSmallGpt.name, kSmallGpt.dims, on("tp=3")).plan;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op != OpKind::kAllReduce) continue;
    const std::string& name = plan.tensors[static_cast<size_t>(plan.steps[i].operands[0])].name;
    CAPTURE(name);
    for (const MakeRun& make_run : {trained(), in_double()}) {
      Diagnostic report = check_run(without_all_reduce(plan, i), make_run);
      CHECK(holds(report.message, fmt::format(": \"{}\"", name)));
      CHECK(holds(report.message, "on 3 of 3 ranks"));
      CHECK(has_note(report, "which must hold the same bits"));
    }
  }
}

TEST_CASE("a sum that is summed again is found, and named with its group and the collective before it") {
  Plan plan = compile_model(kSmallGpt.name, kSmallGpt.dims, on("dp=2,tp=2")).plan;
  for (Phase phase : {Phase::kForward, Phase::kBackward}) {
    size_t step = find_step(plan, OpKind::kAllReduce, phase);
    const std::string& name = plan.tensors[static_cast<size_t>(plan.steps[step].results[0])].name;
    Diagnostic report = check_run(with_second_all_reduce(plan, step), trained());
    CHECK(report.loc.pointer == fmt::format("/steps/{}", step + 1));
    CHECK(holds(report.message, "(all_reduce over ranks 0, 1, " + std::string(to_string(phase))));
    CHECK(holds(report.message, name + "~twice"));
    CHECK(has_note(report, fmt::format("all_reduce of \"{}\" over ranks 0, 1", name)));
  }
}

TEST_CASE("of several faults each is found where it is") {
  Plan plan = compile_model(kTinyGpt.name, kTinyGpt.dims, on("tp=2")).plan;
  size_t forward = find_step(plan, OpKind::kAttention, Phase::kForward);
  size_t backward = find_step(plan, OpKind::kAttentionGrad, Phase::kBackward);
  for (size_t step : {forward, backward}) plan.steps[step].attributes.set("scale", 0.7);
  Diagnostic report = check_run(plan, trained());
  CHECK(report.loc.pointer == fmt::format("/steps/{}", forward));
  CHECK(std::any_of(report.notes.begin(), report.notes.end(),
                    [&](const Note& note) { return note.loc.pointer == fmt::format("/steps/{}", backward); }));
  for (const Note& note : report.notes) CHECK(!holds(note.message, "differ in all"));
}

TEST_CASE("a weight that starts otherwise, or is not updated, is found") {
  Plan plan = compile_model(kTinyGpt.name, kTinyGpt.dims, on("tp=2")).plan;
  auto weight = std::find_if(plan.tensors.begin(), plan.tensors.end(),
                             [](const PlanTensor& t) { return t.name == "block0.fc1.weight"; });
  REQUIRE(weight != plan.tensors.end());
  std::string pointer = fmt::format("/tensors/{}", weight - plan.tensors.begin());

  Plan started = plan;
  started.tensors[static_cast<size_t>(weight - plan.tensors.begin())].attributes.set("init", std::string("ones"));
  Diagnostic report = check_run(started, trained());
  CHECK(report.loc.pointer == pointer);
  CHECK(holds(report.message, "on rank 0 at the start"));

  Plan kept = plan;
  std::erase_if(kept.steps, [&](const PlanStep& s) {
    return s.op == OpKind::kUpdate && s.operands[0] == weight - plan.tensors.begin();
  });
  // Its new value is written elsewhere.
  for (PlanTensor& tensor : kept.tensors) {
    if (tensor.name != "block0.fc1.weight.next") continue;
    tensor.offset = kept.arena_bytes;
    kept.arena_bytes += (tensor.bytes + 63) / 64 * 64;
  }
  report = check_run(kept, trained());
  CHECK(report.loc.pointer == pointer);
  CHECK(holds(report.message, "after the step"));
  CHECK(has_note(report, "no step of the plan gives it a new value"));
}

TEST_CASE("replicas that differ in one bit are found though the model's value is as near") {
  Plan plan = compile_model(kSmallGpt.name, kSmallGpt.dims, on("dp=2,tp=2")).plan;
  size_t step = find_step(plan, OpKind::kLayerNorm, Phase::kForward);
  for (const auto& make_run : {trained(), in_double()}) {
    int tensor = plan.steps[step].results[0];
    Diagnostic report = check_run(plan, tampered(make_run, {3, tensor, static_cast<int>(step), flip_last_bit}));
    CHECK(report.loc.pointer == fmt::format("/steps/{}", step));
    CHECK(holds(report.message, "\"block0.ln1\"[3, 7, 39] is "));
    CHECK(holds(report.message, "on rank 2 and "));
    CHECK(holds(report.message, "on rank 3, which must hold the same bits"));
  }
}

TEST_CASE("a plan that lacks a tensor of its model, or has it in another type, is refused") {
  Plan plan = compile_model(kSmallGpt.name, kSmallGpt.dims, on("tp=2")).plan;
  Plan other = plan;
  for (PlanTensor& tensor : other.tensors) {
    if (tensor.name == "block0.fc1.weight") tensor.name = "block0.fc9.weight";
  }
  CHECK(holds(check_run(other, trained()).message, "the plan has no parameter \"block0.fc1.weight\" of its model"));
  other = plan;
  for (PlanTensor& tensor : other.tensors) {
    if (tensor.name == "tokens") tensor.type.shape = {4, 16};
  }
  CHECK(holds(check_run(other, trained()).message, "\"tokens\" is i32"));
}

TEST_CASE("tensors that only one of the plans has are told") {
  Plan plan = compile_model(kSmallGpt.name, kSmallGpt.dims, on("tp=2")).plan;
  for (PlanTensor& tensor : plan.tensors) {
    if (tensor.name == "block0.act") tensor.name = "mine";
  }
  const Plan one_rank = model_plan(plan);
  std::unique_ptr<DataSource> data = fixed_data(one_rank, 0);
  std::string summary = checked_run(plan, one_rank, *data, trained(), {1, "plan.json", {}});
  CHECK(holds(summary, "not compared: 1 tensor that only the plan has: \"mine\"\n"));
  CHECK(holds(summary, "not compared: 1 tensor that only the model has: \"block0.act\"\n"));
  plan.steps[find_step(plan, OpKind::kAttention, Phase::kForward)].attributes.set("scale", 0.7);
  CHECK(has_note(check_run(plan, trained()), "1 tensor that only the model has"));
}

TEST_CASE("an output that is another tensor, or is missing, is refused") {
  Plan plan = compile_text(kKinks, "kinks.json", {}, on("tp=2")).plan;
  Plan other = plan;
  other.outputs["grad_norm"] = other.outputs["loss"];
  Diagnostic report = check_run(other, trained());
  CHECK(report.loc.pointer == "/outputs/grad_norm");
  CHECK(holds(report.message, "output \"grad_norm\" is \"loss\"; the model's is \""));
  other.outputs.erase("grad_norm");
  CHECK(holds(check_run(other, trained()).message, "the plan has no output \"grad_norm\" of its model"));
}

TEST_CASE("full: the check agrees on every mesh with models as they are, over many steps and seeds") {
  for (const char* model : {"small_gpt", "tiny_gpt", "mlp", "llama_tiny"}) {
    for (const MeshCase& mesh : mesh_cases()) {
      Plan plan = compile_model(model, {{"batch", 4}}, mesh).plan;
      for (uint64_t seed = 0; seed < 3; ++seed) {
        CAPTURE(model);
        CAPTURE(mesh.name);
        CAPTURE(seed);
        CHECK(check_run(plan, trained(seed), 20, seed).message == "");
      }
    }
  }
}

}  // namespace tpc::testing

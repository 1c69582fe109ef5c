#include "tests/faults/fault_model.h"

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/check_plan.h"
#include "compiler/verify/numeric/numeric_proof.h"
#include "compiler/verify/plan_proof.h"
#include "passes/one_rank_plan.h"
#include "passes/plan_flaw.h"
#include "tests/support/shell.h"

namespace tpc::testing {

FaultModel shipped(const std::string& name, std::map<std::string, int64_t> dims) {
  return {read_whole(std::string(TPC_SOURCE_DIR) + "/models/" + name + ".json"), std::move(dims)};
}

FaultModel with(FaultModel model, const std::string& from, const std::string& to) {
  size_t at = model.text.find(from);
  TPC_CHECK(at != std::string::npos, "the model has no \"{}\"", from);
  model.text.replace(at, from.size(), to);
  return model;
}

MeshCase on(const char* mesh, bool sequence_parallel, int zero_stage) {
  return {mesh, *parse_mesh(mesh), sequence_parallel, zero_stage};
}

MeshCase searched_on(const char* mesh) { return {mesh, *parse_mesh(mesh), false, 0, "search"}; }

Plan plan_of(const FaultModel& model, const MeshCase& mesh) {
  return compile_text(model.text, "model.json", model.dims, mesh).plan;
}

Graph one_rank_step(const FaultModel& model) {
  DiagnosticSink sink;
  Model loaded = parse_model(model.text, "model.json", {model.dims}, sink);
  CompileOptions options;
  options.optimizer = loaded.optimizer;
  return differentiated(std::move(loaded.graph), options);
}

std::string compile_error(const FaultModel& model, const MeshCase& mesh) {
  try {
    plan_of(model, mesh);
  } catch (const UserError& error) {
    std::string text;
    for (const Diagnostic& diagnostic : error.diagnostics()) text += diagnostic.message + "\n";
    return text;
  }
  return "";
}

std::string difference_from_one_rank(const FaultModel& model, const MeshCase& mesh, int steps, bool ignore) {
  auto train = [&](const MeshCase& ranks) {
    return train_reference(compile_text(model.text, "model.json", model.dims, ranks).graph, steps, ignore);
  };
  return first_difference(train({"one rank", DeviceMesh()}), train(mesh), 1e-9);
}

std::string refusal(const FaultModel& model, const Plan& plan) {
  try {
    check_plan(plan, "plan.json");
  } catch (const UserError& error) {
    return error.diagnostics()[0].message;
  }
  std::optional<verify::Flaw> flaw = find_plan_flaw(plan, one_rank_step(model));
  return flaw ? flaw->message : "";
}

std::string proof_flaw(const FaultModel& model, const Plan& plan) {
  const Graph step = one_rank_step(model);
  std::optional<verify::Flaw> flaw = verify::find_step_flaw(verify::ValueNumbers(step), plan);
  return flaw ? flaw->message : "";
}

std::string numeric_difference(const FaultModel& model, const Plan& plan) {
  DiagnosticSink sink;
  Model loaded = parse_model(model.text, "model.json", {model.dims}, sink);
  std::optional<verify::Flaw> flaw =
      verify::numeric_flaw(one_rank_plan(std::move(loaded.graph), loaded.optimizer), plan);
  return flaw ? flaw->message : "";
}

int find_tensor(const Plan& plan, const std::string& name) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (plan.tensors[t].name == name) return static_cast<int>(t);
  }
  return -1;
}

const PlanTensor& tensor_named(const Plan& plan, const std::string& name) {
  int index = find_tensor(plan, name);
  TPC_CHECK(index >= 0, "the plan has no \"{}\"", name);
  return plan.tensors[static_cast<size_t>(index)];
}

std::vector<size_t> find_steps(const Plan& plan, const std::function<bool(const PlanStep&)>& wanted) {
  std::vector<size_t> steps;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (wanted(plan.steps[i])) steps.push_back(i);
  }
  return steps;
}

std::vector<size_t> collectives_of(const Plan& plan, const std::string& name) {
  int tensor = find_tensor(plan, name);
  return find_steps(plan, [&](const PlanStep& step) { return is_collective(step.op) && step.operands[0] == tensor; });
}

std::map<std::string, std::string> gradients(const Plan& plan) {
  std::map<std::string, std::string> names;
  for (const PlanStep& step : plan.steps) {
    if (step.op != OpKind::kAdamW && step.op != OpKind::kSgd) continue;
    const std::string& parameter = plan.tensors[static_cast<size_t>(step.operands[0])].name;
    names[parameter.substr(0, parameter.find('@'))] = plan.tensors[static_cast<size_t>(step.operands[1])].name;
  }
  return names;
}

Plan without_move(Plan plan, size_t step) {
  int from = plan.steps[step].results[0];
  int to = plan.steps[step].operands[0];
  plan.steps.erase(plan.steps.begin() + static_cast<std::ptrdiff_t>(step));
  for (PlanStep& other : plan.steps) {
    for (int& operand : other.operands) operand = operand == from ? to : operand;
  }
  PlanTensor& kept = plan.tensors[static_cast<size_t>(to)];
  if (!persists(kept.role)) {
    kept.offset = plan.arena_bytes;
    plan.arena_bytes += (kept.bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  return plan;
}

}  // namespace tpc::testing

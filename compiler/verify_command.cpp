// tpc verify: the proof that a plan computes its model.
#include <fmt/format.h>

#include "compiler/commands.h"
#include "compiler/core/input_file.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/plan_json.h"
#include "compiler/plan/text_table.h"
#include "compiler/verify/plan_proof.h"
#include "passes/pipeline.h"

namespace tpc {

std::string run_verify(const VerifyCommand& command) {
  Plan plan = read_plan(read_file(command.plan_path, "a plan file"), command.plan_path);
  DiagnosticSink sink;
  Model model;
  if (!command.model_path.empty()) {
    model = load_model(command.model_path, {}, sink);
  } else if (!plan.model_json.empty()) {
    model = parse_model(plan.model_json, command.plan_path, {}, sink);
  } else {
    throw UserError(SourceLoc{command.plan_path, ""}, "the plan carries no model; name one: --model model.json");
  }
  CompileOptions options;
  options.optimizer = model.optimizer;
  const Graph one_rank = differentiated(std::move(model.graph), options);
  if (std::optional<verify::Flaw> flaw = verify::find_flaw(verify::ValueNumbers(one_rank), plan)) {
    if (flaw->step < 0)
      throw UserError(SourceLoc{command.plan_path, ""}, "the plan is not the model's: " + flaw->message);
    const PlanStep& step = plan.steps[static_cast<size_t>(flaw->step)];
    throw UserError(
        SourceLoc{command.plan_path, fmt::format("/steps/{}", flaw->step)},
        fmt::format("\"{}\" ({}, {}): {}", step.layer, op_name(step.op), to_string(step.phase), flaw->message));
  }
  int64_t ranks = plan.mesh.world_size();
  return fmt::format(
      "proved: on {} rank{} the {} steps of {} compute every output, gradient and updated weight of the model\n",
      ranks == 1 ? "the one" : fmt::format("all {}", grouped(ranks)), ranks == 1 ? "" : "s",
      grouped(static_cast<int64_t>(plan.steps.size())), plan.model_name);
}

}  // namespace tpc

// tpc verify: the proof that a plan computes its model.
#include <fmt/format.h>

#include "compiler/commands.h"
#include "compiler/core/input_file.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/plan_json.h"
#include "compiler/plan/text_table.h"
#include "passes/prove_numerically.h"
#include "passes/prove_plan.h"

namespace tpc {

std::string run_verify(const VerifyCommand& command) {
  Plan plan = read_plan(read_file(command.plan_path, "a plan file"), command.plan_path);
  DiagnosticSink sink;
  Model model;
  if (!command.model_path.empty()) {
    model = load_model(command.model_path, {}, sink);
  } else if (!plan.model_json.empty()) {
    model = parse_embedded_model(plan.model_json, command.plan_path, sink);
  } else {
    throw UserError(SourceLoc{command.plan_path, ""}, "the plan carries no model; name one: --model model.json");
  }
  int64_t ranks = plan.mesh.world_size();
  std::string of_ranks =
      fmt::format("{} rank{}", ranks == 1 ? "the one" : fmt::format("all {}", grouped(ranks)), ranks == 1 ? "" : "s");
  auto steps = static_cast<int64_t>(plan.steps.size());
  if (command.is_numeric) {
    int64_t numbers = prove_numerically(plan, std::move(model.graph), model.optimizer, command.plan_path);
    return fmt::format(
        "computed: on {} the {} steps of {}, at tiny shapes modulo 2^61 - 1, leave the very numbers of the model\n"
        "          on one rank in every output, weight and optimizer state ({} numbers agree, for two seeds)\n",
        of_ranks, grouped(steps), plan.model_name, grouped(numbers));
  }
  prove_plan(plan, std::move(model.graph), model.optimizer, command.plan_path);
  return fmt::format(
      "proved: on {} the {} steps of {} compute every output, gradient and updated weight of the model\n"
      "        every rank's program is the plan's, with all collectives in one order\n"
      "        nothing is read before it is written, or after its memory went to something else\n",
      of_ranks, grouped(steps), plan.model_name);
}

}  // namespace tpc

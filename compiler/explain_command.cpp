// tpc explain: what was chosen for a layer or tensor, what else was possible, and why each collective is there.
#include <fmt/format.h>

#include "compiler/commands.h"
#include "compiler/core/input_file.h"
#include "compiler/explanation_text.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/plan_json.h"
#include "passes/explanation.h"
#include "passes/plan_options.h"

namespace tpc {
namespace {

ExplainedNode require_node(const Plan& plan, const Report& report, const ExplainCommand& command) {
  if (std::optional<ExplainedNode> node = find_node(plan, report, command.node)) return *node;
  std::string nearest = nearest_word(command.node, node_names(plan));
  throw UserError(SourceLoc{command.plan_path, ""},
                  fmt::format("the plan has no layer, tensor or step \"{}\"{}", command.node,
                              nearest.empty() ? "; tpc shard MODEL lists layers, with --rank 0 tensors and steps"
                                              : fmt::format("; did you mean \"{}\"?", nearest)));
}

}  // namespace

std::string run_explain(const ExplainCommand& command, const Tell& progress) {
  Plan plan = read_plan(read_file(command.plan_path, "a plan file"), command.plan_path);
  Report report = make_report(plan);
  ExplainedNode node = require_node(plan, report, command);
  if (plan.model_json.empty()) {
    throw UserError(SourceLoc{command.plan_path, ""},
                    "the plan carries no model, so that its choices cannot be compared");
  }
  CompileOptions options = read_plan_options(plan.options, command.plan_path);
  DiagnosticSink sink;
  Model model = parse_embedded_model(plan.model_json, command.plan_path, sink);
  options.optimizer = model.optimizer;
  options.progress = progress;
  Explanation explanation = explain(plan, node, std::move(report), model.graph, options);
  return command.json ? explanation_json(plan, options, explanation) : explanation_text(plan, options, explanation);
}

}  // namespace tpc

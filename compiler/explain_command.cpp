// tpc explain: what was chosen for a layer, what else was possible, and why each collective is there.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/commands.h"
#include "compiler/core/input_file.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/layer_role.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/plan_json.h"
#include "compiler/plan/proof_text.h"
#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"
#include "passes/alternatives.h"
#include "passes/plan_options.h"

namespace tpc {
namespace {

void require_layer(const Plan& plan, const ExplainCommand& command) {
  std::set<std::string> layers;
  for (const PlanStep& step : plan.steps) layers.insert(step.layer);
  if (layers.count(command.layer) != 0) return;
  std::vector<std::string> known(layers.begin(), layers.end());
  std::string nearest = nearest_word(command.layer, known);
  throw UserError(
      SourceLoc{command.plan_path, ""},
      fmt::format("the plan has no layer \"{}\"{}", command.layer,
                  nearest.empty() ? "; tpc shard MODEL lists them" : fmt::format("; did you mean \"{}\"?", nearest)));
}

/// What the layer does and how its tensors lie.
std::string choice_text(const Plan& plan, const std::string& layer, const ModelWords& words) {
  TextTable table("lll");
  std::set<int> told;
  for (const PlanStep& step : plan.steps) {
    if (step.layer != layer || is_move(step.op) || step.phase != Phase::kForward || step.results.empty()) continue;
    table.add_row({std::string(op_name(step.op)), layer_role(plan, step, words)});
    auto tell = [&](int index, const char* what) {
      const PlanTensor& tensor = plan.tensors[static_cast<size_t>(index)];
      if (told.insert(index).second) table.add_row({"", what + tensor.name, words.placement(tensor, step.origin)});
    };
    for (int operand : step.operands) tell(operand, "reads ");
    for (int result : step.results) tell(result, "makes ");
  }
  return table.text(2);
}

std::string alternatives_text(const std::vector<NodeAlternatives>& nodes, bool is_time) {
  std::string text;
  for (const NodeAlternatives& node : nodes) {
    TextTable table("llrrr");
    table.add_row({"", "way", is_time ? "time" : "received", "", "memory"});
    std::optional<int64_t> least;
    for (const Alternative& way : node.ways) {
      if (!way.price) {
        table.add_row({way.is_chosen ? "*" : "", way.way, "impossible"});
        continue;
      }
      if (!least) least = way.price;
      int64_t more = *way.price - *least;
      table.add_row({way.is_chosen ? "*" : "", way.way, price_text(*way.price, is_time),
                     more == 0 ? "" : "+" + price_text(more, is_time), bytes_text(way.memory)});
    }
    text += fmt::format("\nWays of {}, each with the cheapest step that has it (* is this plan's):\n{}", node.op,
                        table.text(2));
  }
  return text;
}

std::string collectives_text(const Plan& plan, const std::string& layer) {
  Report report = make_report(plan);
  TextTable table("lllrrl");
  for (const CollectiveRow& row : report.collectives) {
    bool is_here = row.layer == layer || plan.steps[static_cast<size_t>(row.step)].layer == layer;
    if (!is_here) continue;
    table.add_row({std::string(to_string(row.phase)), std::string(op_name(row.kind)), row.axis,
                   phi_text(row.volume_phi), bytes_text(row.received_bytes_max), row.why});
  }
  if (table.empty()) return "\nNo collective: what it reads arrives as it is wanted, and what it makes is wanted so.\n";
  return "\nCollectives of what it reads and makes:\n" + table.text(2);
}

}  // namespace

std::string run_explain(const ExplainCommand& command) {
  Plan plan = read_plan(read_file(command.plan_path, "a plan file"), command.plan_path);
  require_layer(plan, command);
  if (plan.model_json.empty()) {
    throw UserError(SourceLoc{command.plan_path, ""},
                    "the plan carries no model, so that its choices cannot be compared");
  }
  CompileOptions options = read_plan_options(plan.options, command.plan_path);
  DiagnosticSink sink;
  Model model = parse_model(plan.model_json, command.plan_path, {}, sink);
  options.optimizer = model.optimizer;
  ModelWords words(plan);
  std::string text = fmt::format("\"{}\" in {} on {}, strategy {}\n", command.layer, plan.model_name,
                                 user_mesh(plan.mesh), options.strategy);
  text += choice_text(plan, command.layer, words);
  try {
    text += alternatives_text(alternatives(model.graph, options, plan, command.layer), options.price.is_time());
    if (plan.options.count("memory_price") + plan.options.count("memory_limit") > 0) {
      text += "  (without the plan's price of memory or limit)\n";
    }
  } catch (const UserError& error) {
    // What was chosen and why collectives are there can be told all the same.
    text += fmt::format("\nOther ways are not priced: {}\n", error.diagnostics().front().message);
  }
  return text + collectives_text(plan, command.layer);
}

}  // namespace tpc

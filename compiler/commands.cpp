#include "compiler/commands.h"

#include <fmt/format.h>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic_renderer.h"
#include "compiler/core/input_file.h"
#include "compiler/core/output_file.h"
#include "compiler/frontend/cluster.h"
#include "compiler/frontend/model.h"
#include "compiler/ir/printer.h"
#include "compiler/lowering/device_memory_need.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/plan_json.h"
#include "compiler/plan/plan_view.h"
#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"
#include "compiler/plan_comparison.h"
#include "passes/fit_memory.h"
#include "passes/pipeline.h"

namespace tpc {
namespace {

std::string summary(const Plan& plan, const std::string& path) {
  Report report = make_report(plan);
  std::string where = report.world_size == 1 ? std::string("one rank") : user_mesh(plan.mesh);
  return fmt::format(
      "{}: {} on {}, {} steps, of them {} collective{}; the fullest rank receives {} a step, each needs {}\n{}"
      "run it: tprun {}\n",
      path, plan.model_name, where, plan.steps.size(), report.step.collectives, report.step.collectives == 1 ? "" : "s",
      bytes_text(report.step.received_bytes), bytes_text(plan.arena_bytes),
      report.precision.is_mixed() ? precision_text(report.precision) + "\n" : "", path);
}

CompileOptions compile_options(const ShardCommand& command, const Model& model, const Tell& progress) {
  CompileOptions options;
  options.mesh = command.mesh;
  options.strategy = command.strategy;
  options.sequence_parallel = command.sequence_parallel;
  options.zero_stage = command.zero_stage;
  options.search = command.search;
  options.memory_limit = command.memory_bytes;
  if (!command.cluster_path.empty()) options.links = load_cluster(command.cluster_path, command.mesh);
  if (command.by_time) options.price = MovePrice(options.links);
  options.optimizer = model.optimizer;
  options.model_json = model.json;
  options.progress = progress;
  options.print_after = command.print_after;
  options.stop_after = command.stop_after;
  options.dump_dir = command.dump_dir;
  return options;
}

}  // namespace

std::string run_shard(const ShardCommand& command, const Tell& warn, const Tell& progress) {
  bool writes_file = !command.output_path.empty() && command.output_path != "-";
  if (writes_file) require_output_path(command.output_path, {command.model_path});
  DiagnosticSink sink;
  Model model = load_model(command.model_path, ModelOverrides{command.dims, command.precision}, sink);
  CompileOptions options = compile_options(command, model, progress);
  if (command.compares) return comparison_text(model.graph, options);
  if (command.shows_front) return front_text(model.graph, options);
  // Only whole plans that people read end in advice.
  options.compare_with_search = command.strategy != "search" && command.memory_bytes == 0 &&
                                command.output_path != "-" && !command.rank && command.stop_after.empty();
  CompileResult result = compile_within(std::move(model.graph), options, sink);
  if (!sink.diagnostics().empty()) {
    warn(render_diagnostics(sink.diagnostics(), {{command.model_path, read_file(command.model_path)}}));
  }
  // The graphs are for people; a plan that goes to standard output stands alone there.
  std::string output;
  if (command.output_path == "-") {
    warn(result.printed);
  } else {
    output = result.printed;
  }
  if (!result.complete) return command.print_after.empty() ? print(result.graph) : output;
  if (command.output_path == "-") return write_plan(result.plan);
  if (writes_file) {
    write_output_file(command.output_path, write_plan(result.plan));
    return output + summary(result.plan, command.output_path) + search_advice(result);
  }
  if (command.rank) return output + rank_text(result.plan, *command.rank);
  return output + plan_text(result.plan) + search_advice(result);
}

std::string run_report(const ReportCommand& command) {
  Plan plan = read_plan(read_file(command.plan_path, "a plan file"), command.plan_path);
  Report report = make_report(plan);
  report.device_memory = device_memory_need(plan, report.ranks);
  switch (command.form) {
    case ReportCommand::Form::kText:
      return report_text(report, command.all_collectives);
    case ReportCommand::Form::kJson:
      return report_json(report);
    case ReportCommand::Form::kCsv:
      return report_csv(report);
  }
  TPC_UNREACHABLE("form {}", static_cast<int>(command.form));
}

}  // namespace tpc

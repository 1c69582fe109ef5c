#include "passes/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/plan/check_plan.h"
#include "compiler/plan/plan_json.h"
#include "passes/collective_price.h"
#include "passes/emit_plan.h"
#include "passes/memory_account.h"
#include "passes/pass_manager.h"
#include "passes/plan_flaw.h"
#include "passes/plan_memory.h"
#include "passes/plan_options.h"
#include "passes/registry.h"

namespace tpc {
namespace {

/// What is refused when a plan is loaded must never be written: here it is our bug.
void verify_plan(const Plan& plan) {
  try {
    check_plan(plan, "plan");
  } catch (const UserError& error) {
    TPC_UNREACHABLE("the plan of \"{}\" is not sound: {}", plan.model_name, error.what());
  }
}

void prove(const Plan& plan, const Graph& one_rank) {
  std::optional<verify::Flaw> flaw = find_plan_flaw(plan, one_rank);
  if (!flaw) return;
  std::string place = flaw->step < 0 ? "" : plan.steps[static_cast<size_t>(flaw->step)].layer;
  TPC_UNREACHABLE("the plan of \"{}\" is not its model's: step {} \"{}\": {}", plan.model_name, flaw->step, place,
                  flaw->message);
}

std::string printed_plan(const Plan& plan, const std::vector<std::string>& print_after) {
  bool asked = std::any_of(print_after.begin(), print_after.end(),
                           [](const std::string& name) { return name == "all" || name == kPlanMemoryName; });
  return asked ? fmt::format("# after {}\n{}\n", kPlanMemoryName, write_plan(plan)) : "";
}

}  // namespace

CompileResult compile(Graph graph, const CompileOptions& options, DiagnosticSink& sink) {
  PassManager passes(options, sink);
  CompileResult result;

  // Global view: every shape is the one the user wrote. Differentiate first, shard second.
  graph = passes.run("infer-types", std::move(graph));
  graph = passes.run("build-backward", std::move(graph));
  graph = passes.run("apply-precision", std::move(graph));
  const Graph one_rank = options.prove ? graph : Graph();
  std::optional<SearchEstimate> best;
  if (options.compare_with_search) best = best_by_search(graph, options);

  // Placement. Wishes first, then explicit conversions, then the collectives that perform them.
  graph = passes.run("assign-shardings", std::move(graph));
  if (best) result.memory_account = memory_account(graph);
  graph = passes.run("insert-redistributes", std::move(graph));
  graph = passes.run("lower-redistributes", std::move(graph));
  if (best) result.price = collective_price(graph, options.price);
  // Only now is it known which sums are whole where they are made.
  graph = passes.run("merge-casts", std::move(graph));

  // A rank's view: local shapes, order, and (on the plan) memory for that order.
  graph = passes.run("localize-shapes", std::move(graph));
  graph = passes.run("schedule", std::move(graph));

  result.best = std::move(best);
  std::string printed = passes.printed();
  result.complete = !passes.stopped();
  if (result.complete) {
    result.plan = emit_plan(graph, plan_options(options));
    result.plan.model_json = options.model_json;
    plan_memory(result.plan);
    verify_plan(result.plan);
    if (options.prove) prove(result.plan, one_rank);
    printed += printed_plan(result.plan, options.print_after);
  }
  result.graph = std::move(graph);
  result.printed = std::move(printed);
  return result;
}

Graph differentiated(Graph graph, const CompileOptions& options) {
  DiagnosticSink ignored;
  PassManager passes(options, ignored);
  graph = passes.run("infer-types", std::move(graph));
  graph = passes.run("build-backward", std::move(graph));
  return passes.run("apply-precision", std::move(graph));
}

}  // namespace tpc

#include "passes/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/core/check.h"
#include "compiler/plan/proof_text.h"
#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"
#include "passes/strategies/search.h"

namespace tpc {
namespace {

[[noreturn]] void refuse(const std::string& file, const Plan& smallest, int64_t limit, bool is_search) {
  Report report = make_report(smallest);
  auto fullest = std::max_element(report.ranks.begin(), report.ranks.end(), [](const RankLoad& a, const RankLoad& b) {
    return a.peak_activation_bytes < b.peak_activation_bytes;
  });
  std::string at;
  SourceLoc loc{file, ""};
  if (fullest->peak_step >= 0) {
    const PlanStep& step = smallest.steps[static_cast<size_t>(fullest->peak_step)];
    loc.pointer = step.origin;
    at = fmt::format(", most at \"{}\" ({}, {}): {} beside {} of parameters, optimizer state and inputs", step.layer,
                     op_name(step.op), to_string(step.phase), bytes_text(fullest->peak_activation_bytes),
                     bytes_text(smallest.persistent_bytes));
  }
  std::string way_out = is_search ? "use more ranks, or a smaller batch or sequence"
                                  : "--strategy search looks for the cheapest plan that fits";
  throw UserError(loc,
                  fmt::format("no plan was found that fits in {}: the smallest{} needs {} on a rank, {} too much{}; {}",
                              bytes_text(limit), is_search ? " found" : ", of this strategy,",
                              bytes_text(smallest.arena_bytes), bytes_text(smallest.arena_bytes - limit), at, way_out));
}

}  // namespace

std::shared_ptr<const ChosenShardings> choose_within(const Graph& graph, const CompileOptions& options) {
  TPC_CHECK(options.memory_limit > 0, "there is no limit on memory");
  DiagnosticSink ignored;
  CompileOptions quiet = options;
  quiet.print_after.clear();
  quiet.dump_dir.clear();
  quiet.stop_after.clear();
  quiet.compare_with_search = false;
  quiet.prove = false;
  std::optional<Plan> smallest;
  std::optional<int64_t> least_price;
  int num_tried = 0;
  auto excess = [&](const ChosenShardings& chosen) {
    quiet.chosen = std::make_shared<ChosenShardings>(chosen);
    Plan plan = compile(graph, quiet, ignored).plan;
    ++num_tried;
    int64_t excess_bytes = plan.arena_bytes - options.memory_limit;
    if (excess_bytes <= 0) least_price = std::min(least_price.value_or(chosen.proof->price), chosen.proof->price);
    if (!smallest || plan.arena_bytes < smallest->arena_bytes) smallest = std::move(plan);
    if (options.progress) {
      std::string fitting =
          least_price ? fmt::format("cheapest that fits {}", price_text(*least_price, options.price.is_time()))
                      : fmt::format("smallest {}", bytes_text(smallest->arena_bytes));
      options.progress(fmt::format("fitting {}: {} plan{} tried, {}", bytes_text(options.memory_limit), num_tried,
                                   num_tried == 1 ? "" : "s", fitting));
    }
    return excess_bytes;
  };
  std::optional<ChosenShardings> chosen = search_within(differentiated(graph, quiet), {quiet, ignored}, excess);
  if (!chosen) refuse(graph.source_file, *smallest, options.memory_limit, /*is_search=*/true);
  return std::make_shared<ChosenShardings>(std::move(*chosen));
}

CompileResult compile_within(Graph graph, CompileOptions options, DiagnosticSink& sink) {
  bool is_search = options.strategy == "search";
  if (options.memory_limit > 0 && is_search) options.chosen = choose_within(graph, options);
  const std::string file = graph.source_file;
  CompileResult result = compile(std::move(graph), options, sink);
  bool fits = options.memory_limit == 0 || result.plan.arena_bytes <= options.memory_limit;
  if (!fits) refuse(file, result.plan, options.memory_limit, is_search);
  return result;
}

}  // namespace tpc

#include "passes/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

/// Of the search's limit, one tightening after the other.
constexpr int kMaxRounds = 12;

std::string bytes(int64_t count) { return bytes_text(static_cast<double>(count)); }

[[noreturn]] void refuse(const Graph& graph, const Plan& smallest, int64_t limit, bool is_search) {
  Report report = make_report(smallest);
  auto fullest = std::max_element(report.ranks.begin(), report.ranks.end(), [](const RankLoad& a, const RankLoad& b) {
    return a.peak_activation_bytes < b.peak_activation_bytes;
  });
  std::string at;
  SourceLoc loc{graph.source_file, ""};
  if (fullest->peak_step >= 0) {
    const PlanStep& step = smallest.steps[static_cast<size_t>(fullest->peak_step)];
    loc.pointer = step.origin;
    at = fmt::format(", most at \"{}\" ({}, {}): {} beside {} of parameters, optimizer state and inputs", step.layer,
                     op_name(step.op), to_string(step.phase), bytes(fullest->peak_activation_bytes),
                     bytes(smallest.persistent_bytes));
  }
  std::string way_out = is_search ? "use more ranks, or a smaller batch or sequence"
                                  : "--strategy search looks for the cheapest plan that fits";
  throw UserError(loc,
                  fmt::format("no plan was found that fits in {}: the smallest{} needs {} on a rank, {} too much{}; {}",
                              bytes(limit), is_search ? "" : ", of this strategy,", bytes(smallest.arena_bytes),
                              bytes(smallest.arena_bytes - limit), at, way_out));
}

}  // namespace

CompileResult compile_within(const Graph& graph, const CompileOptions& options, int64_t limit, DiagnosticSink& sink) {
  CompileOptions now = options;
  CompileResult result = compile(graph, now, sink);
  if (!result.complete || result.plan.arena_bytes <= limit) return result;
  if (!result.plan.proof) refuse(graph, result.plan, limit, /*is_search=*/false);
  Plan smallest = result.plan;
  for (int round = 0; round < kMaxRounds; ++round) {
    int64_t account = result.plan.proof->memory;
    // The search answers with its smallest plan when nothing is within the limit.
    if (now.search.memory_limit > 0 && account > now.search.memory_limit) break;
    now.search.memory_limit = std::max<int64_t>(1, account - (result.plan.arena_bytes - limit));
    DiagnosticSink repeated;
    result = compile(graph, now, repeated);
    if (result.plan.arena_bytes <= limit) return result;
    if (result.plan.arena_bytes < smallest.arena_bytes) smallest = result.plan;
  }
  refuse(graph, smallest, limit, /*is_search=*/true);
}

}  // namespace tpc

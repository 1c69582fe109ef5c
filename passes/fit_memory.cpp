#include "passes/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

/// Searches with one limit after the other.
constexpr int kMaxRounds = 8;
/// Limits that differ by this part are not told apart.
constexpr int64_t kCloseEnough = 100;

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
  DiagnosticSink of_first;
  CompileResult first = compile(graph, options, of_first);
  for (const Diagnostic& diagnostic : of_first.diagnostics()) {
    // Notes are about a plan without the limit.
    if (diagnostic.severity != Severity::kNote) sink.add(diagnostic);
  }
  if (!first.complete || first.plan.arena_bytes <= limit) return first;
  if (!first.plan.proof) refuse(graph, first.plan, limit, /*is_search=*/false);

  // Limits on the account: the least that gave a plan that is too large, the largest that gave one that fits.
  int64_t too_large = first.plan.proof->memory;
  Plan smallest = first.plan;
  std::optional<CompileResult> best;
  CompileOptions now = options;
  int64_t fits = 0;
  int64_t next = too_large - (first.plan.arena_bytes - limit);
  for (int round = 0; round < kMaxRounds; ++round) {
    now.search.memory_limit = std::max<int64_t>(1, next);
    DiagnosticSink repeated;
    CompileResult result = compile(graph, now, repeated);
    int64_t account = result.plan.proof->memory;
    int64_t excess = result.plan.arena_bytes - limit;
    bool is_within = account <= now.search.memory_limit;
    if (result.plan.arena_bytes < smallest.arena_bytes) smallest = result.plan;
    if (result.plan.arena_bytes <= limit) {
      bool is_cheaper = !best || result.plan.proof->price <= best->plan.proof->price;
      if (is_cheaper) best = std::move(result);
      fits = std::max({fits, account, is_within ? now.search.memory_limit : 0});
    } else {
      // The search answers with its smallest plan when nothing is within the limit.
      if (!is_within && !best) break;
      too_large = std::min(too_large, is_within ? account : now.search.memory_limit);
    }
    if (best && too_large - fits <= too_large / kCloseEnough) break;
    next = best ? (fits + too_large) / 2 : account - excess;
  }
  if (best) return std::move(*best);
  refuse(graph, smallest, limit, /*is_search=*/true);
}

}  // namespace tpc

/// From graph to plan.
#pragma once

#include <optional>
#include <string>

#include "compiler/plan/plan.h"
#include "passes/pass.h"
#include "passes/strategies/search.h"

namespace tpc {

struct CompileResult {
  /// Empty steps when stop_after ended the pipeline early.
  Plan plan;
  Graph graph;
  /// What --print-after asked for, in pass order.
  std::string printed;
  bool complete = false;
  /// With CompileOptions::compare_with_search: what the search finds on the same mesh (absent when it finds nothing),
  /// and price and memory_account() of this plan.
  std::optional<SearchEstimate> best;
  int64_t price = 0;
  int64_t memory_account = 0;
};

/// Runs every pass in order. Throws UserError (a sharding that cannot be), InternalError (ours: names the pass that
/// broke the graph). Warnings go to `sink`.
CompileResult compile(Graph graph, const CompileOptions& options, DiagnosticSink& sink);

/// The step's graph before placement, as strategies are given it: typed, differentiated, in the model's precision.
Graph differentiated(Graph graph, const CompileOptions& options);

}  // namespace tpc

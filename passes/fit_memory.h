/// Plans that fit.
#pragma once

#include <memory>

#include "passes/pipeline.h"
#include "passes/strategies/strategy.h"

namespace tpc {

/// With a limit in options.memory_limit: strategy search's choices whose plan's arena has at most options.memory_limit
/// bytes: the cheapest of those tried (search_within), the real arena worked out for each. UserError when none fits: by
/// how much the smallest misses, and where most is alive at once.
std::shared_ptr<const ChosenShardings> choose_within(const Graph& graph, const CompileOptions& options);

/// compile(), but with a plan within options.memory_limit, if there is a limit. A strategy other than search has one
/// plan, which fits or is refused.
CompileResult compile_within(Graph graph, CompileOptions options, DiagnosticSink& sink);

}  // namespace tpc

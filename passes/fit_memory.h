/// Plans that fit.
#pragma once

#include "passes/pipeline.h"

namespace tpc {

/// Compiles so that a rank's arena has at most `limit` bytes. A strategy that searches is asked again with its account
/// of memory (memory_account) limited ever tighter, by what the arena was too large: account and arena differ by what
/// lives within a layer. UserError when no plan fits: by how much the smallest misses, and where most is alive at once.
CompileResult compile_within(const Graph& graph, const CompileOptions& options, int64_t limit, DiagnosticSink& sink);

}  // namespace tpc

/// Plans of one model side by side.
#pragma once

#include <string>

#include "passes/pipeline.h"

namespace tpc {

/// A table of megatron, sequence-parallel, ZeRO (on a mesh with dp) and search: bytes, memory, collectives.
std::string comparison_text(const Graph& graph, const CompileOptions& options);

/// What less memory costs: the corners of price against memory that the search finds, as a table and a plot.
std::string front_text(const Graph& graph, const CompileOptions& options);

/// One line when the search would do better than this plan, else "". Needs CompileOptions::compare_with_search.
std::string search_advice(const CompileResult& result);

}  // namespace tpc

/// Reads the text of a graph, see printer.h. Blank lines and lines that start with # are skipped.
#pragma once

#include <string>

#include "compiler/ir/graph.h"

namespace tpc {

/// The inverse of print. Checks spelling and that every value named exists and is made at most once; what a stage
/// promises is verify_graph's matter. Throws UserError with the byte of the first mistake; `file` names the text in it.
Graph parse_graph(const std::string& text, const std::string& file);

}  // namespace tpc

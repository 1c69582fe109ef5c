/// Pages of docs/ that are printed from the tables; a test compares them with the files.
#pragma once

#include <string>

namespace tpc {

/// docs/ops.md.
std::string ops_page();
/// docs/passes.md.
std::string passes_page();

}  // namespace tpc

/// Reading the user's files.
#pragma once

#include <string>
#include <string_view>

namespace tpc {

/// A whole file; `what` says what it should be ("a model file"). UserError when it cannot be read.
std::string read_file(const std::string& path, std::string_view what = "a file");

}  // namespace tpc

#include "compiler/core/input_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/core/diagnostic.h"

namespace tpc {

std::string read_file(const std::string& path, std::string_view what) {
  std::error_code status;
  if (std::filesystem::is_directory(path, status))
    throw UserError(SourceLoc{path, ""}, fmt::format("this is a folder; wanted {}", what));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(SourceLoc{path, ""}, fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw UserError(SourceLoc{path, ""}, "cannot be read");
  return text.str();
}

}  // namespace tpc

#include "tests/support/shell.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tpc::testing {

namespace fs = std::filesystem;

Ran run_in_shell(const std::string& command, const fs::path& folder, const fs::path& scratch) {
  std::string line = fmt::format("cd '{}' && export PATH='{}/bin':\"$PATH\" TMP='{}' COLUMNS=100 && {{ {}\n}} 2>&1",
                                 folder.string(), TPC_BINARY_DIR, scratch.string(), command);
  Ran ran;
  FILE* pipe = popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) ran.output.append(buffer.data(), count);
  int status = pclose(pipe);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  for (size_t at = 0; (at = ran.output.find(scratch.string(), at)) != std::string::npos;) {
    ran.output.replace(at, scratch.string().size(), "$TMP");
  }
  return ran;
}

ScratchFolder::ScratchFolder(const std::string& name)
    : path_(fs::temp_directory_path() / fmt::format("tpc-{}-{}", name, getpid())) {
  fs::remove_all(path_);
  fs::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_whole(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool updates_golden() { return std::getenv("TPC_UPDATE_GOLDEN") != nullptr && std::getenv("CI") == nullptr; }

}  // namespace tpc::testing

// Transcripts: tests/golden/<folder>/*.txt hold commands and exactly what they print, as a user sees it.
//
//   # what must be true
//   $ tpc shard models/small_gpt.json --tp 16
//   models/small_gpt.json:11:7: error: ...
//   [exit 1]
//
// Commands run in a shell in the repository root, with the built programs first on PATH and TMP an empty folder (shown
// as $TMP in output). TPC_UPDATE_GOLDEN=1 rewrites what follows the commands; a run under CI=true refuses to.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tpc::testing {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Ran {
  std::string output;
  int exit_code = 0;
};

Ran run(const std::string& command, const fs::path& scratch) {
  std::string line = fmt::format("cd '{}' && export PATH='{}/bin':\"$PATH\" TMP='{}' COLUMNS=100 && {{ {}\n}} 2>&1",
                                 TPC_SOURCE_DIR, TPC_BINARY_DIR, scratch.string(), command);
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

/// Runs every command of the transcript; returns it with what was printed.
std::string replay(const std::string& transcript, const fs::path& scratch) {
  std::istringstream lines(transcript);
  std::string line;
  std::string replayed;
  bool seen_command = false;
  while (std::getline(lines, line)) {
    if (line.starts_with("# ") && !seen_command) {
      replayed += line + "\n";
      continue;
    }
    if (!line.starts_with("$ ")) continue;
    seen_command = true;
    Ran ran = run(line.substr(2), scratch);
    replayed += line + "\n" + ran.output;
    if (!replayed.ends_with("\n")) replayed += "\n";
    if (ran.exit_code != 0) replayed += fmt::format("[exit {}]\n", ran.exit_code);
    // A crash or a bug of ours is never what a transcript should hold.
    CHECK(ran.exit_code < 70);
  }
  return replayed;
}

void check_folder(const std::string& folder) {
  fs::path directory = fs::path(TPC_SOURCE_DIR) / "tests" / "golden" / folder;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  bool update = std::getenv("TPC_UPDATE_GOLDEN") != nullptr && std::getenv("CI") == nullptr;
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    fs::path scratch = fs::temp_directory_path() / fmt::format("tpc-golden-{}-{}", file.stem().string(), std::rand());
    fs::create_directories(scratch);
    std::string wanted = read_file(file);
    std::string found = replay(wanted, scratch);
    fs::remove_all(scratch);
    if (update) {
      std::ofstream(file) << found;
    } else {
      CHECK(found == wanted);
    }
  }
}

}  // namespace

TEST_CASE("transcripts of the command line") { check_folder("cli"); }
TEST_CASE("transcripts of plans") { check_folder("plans"); }
TEST_CASE("transcripts of models that cannot be sharded as asked") { check_folder("shard_errors"); }

}  // namespace tpc::testing

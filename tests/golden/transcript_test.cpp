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

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/shell.h"

namespace tpc::testing {
namespace {

namespace fs = std::filesystem;

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
    Ran ran = run_in_shell(line.substr(2), TPC_SOURCE_DIR, scratch);
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
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    ScratchFolder scratch(file.stem().string());
    std::string wanted = read_whole(file);
    std::string found = replay(wanted, scratch.path());
    if (updates_golden()) {
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

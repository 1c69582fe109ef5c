// What README.md and docs/ show is what the programs print.
//
// Every fenced block that begins with "$ " is run, in a folder with the repository's models/ and the example of
// docs/cluster.md as cluster.json. A line "…" stands for any number of lines. Of tprun's lines
// numbers are not compared, as times differ and sums depend on the machine. TPC_UPDATE_GOLDEN=1 rewrites what follows
// the commands: lines before the first "…" and after the last one by their number, others where they begin alike.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/shell.h"

namespace tpc::testing {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

const char* const kAnyLines = "…";

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Numbers as "#", with a "k" for thousands; runs of spaces, which align them, as one.
std::string without_numbers(const std::string& line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    bool is_number = std::isdigit(static_cast<unsigned char>(c)) != 0;
    bool goes_on = !text.empty() && text.back() == '#' && (c == '.' || c == ',' || c == 'k');
    if (is_number || goes_on) c = '#';
    if ((c == '#' || c == ' ') && !text.empty() && text.back() == c) continue;
    text += c;
  }
  return text;
}

bool alike(const std::string& wanted, const std::string& found, bool ignores_numbers) {
  return ignores_numbers ? without_numbers(wanted) == without_numbers(found) : wanted == found;
}

/// Runs of lines between kAnyLines; the first and last are empty where the output begins or ends with it.
std::vector<Lines> segments_of(const Lines& wanted) {
  std::vector<Lines> segments(1);
  for (const std::string& line : wanted) {
    if (line == kAnyLines) {
      segments.emplace_back();
    } else {
      segments.back().push_back(line);
    }
  }
  return segments;
}

bool stands_at(const Lines& segment, const Lines& found, size_t at, bool ignores_numbers) {
  if (at + segment.size() > found.size()) return false;
  for (size_t i = 0; i < segment.size(); ++i) {
    if (!alike(segment[i], found[at + i], ignores_numbers)) return false;
  }
  return true;
}

bool matches(const Lines& wanted, const Lines& found, bool ignores_numbers) {
  std::vector<Lines> segments = segments_of(wanted);
  if (segments.size() == 1) return wanted.size() == found.size() && stands_at(wanted, found, 0, ignores_numbers);
  size_t at = 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    const Lines& segment = segments[s];
    bool is_last = s + 1 == segments.size();
    if (is_last) at = std::max(at, found.size() - std::min(found.size(), segment.size()));
    while (s > 0 && !is_last && at < found.size() && !stands_at(segment, found, at, ignores_numbers)) ++at;
    if (!stands_at(segment, found, at, ignores_numbers)) return false;
    at += segment.size();
  }
  return true;
}

Lines updated(const Lines& wanted, const Lines& found) {
  std::vector<Lines> segments = segments_of(wanted);
  if (segments.size() == 1) return found;
  Lines result;
  for (size_t s = 0; s < segments.size(); ++s) {
    if (s > 0) result.emplace_back(kAnyLines);
    const Lines& segment = segments[s];
    size_t count = std::min(segment.size(), found.size());
    if (s == 0) {
      result.insert(result.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
    } else if (s + 1 == segments.size()) {
      result.insert(result.end(), found.end() - static_cast<std::ptrdiff_t>(count), found.end());
    } else {
      for (const std::string& line : segment) {
        std::string begin = line.substr(0, line.find_first_of("0123456789"));
        auto same =
            std::find_if(found.begin(), found.end(), [&](const std::string& f) { return f.starts_with(begin); });
        result.push_back(same == found.end() ? line : *same);
      }
    }
  }
  return result;
}

/// Runs one block's commands; returns it with what was printed where that differs.
Lines replay(const Lines& block, const fs::path& folder) {
  Lines replayed;
  for (size_t i = 0; i < block.size();) {
    const std::string& command = block[i];
    CAPTURE(command);
    Lines wanted;
    for (++i; i < block.size() && !block[i].starts_with("$ "); ++i) wanted.push_back(block[i]);
    Ran ran = run_in_shell(command.substr(2), folder, folder);
    CHECK(ran.exit_code < 2);
    Lines found = lines_of(ran.output);
    // A page separates commands by empty lines where it likes.
    bool is_spaced = !wanted.empty() && wanted.back().empty() && (found.empty() || !found.back().empty());
    if (is_spaced) wanted.pop_back();
    bool is_true = matches(wanted, found, command.starts_with("$ tprun"));
    if (!updates_golden()) CHECK_MESSAGE(is_true, ran.output);
    replayed.push_back(command);
    Lines kept = is_true ? wanted : updated(wanted, found);
    replayed.insert(replayed.end(), kept.begin(), kept.end());
    if (is_spaced) replayed.emplace_back();
  }
  return replayed;
}

/// The example of docs/cluster.md.
std::string cluster_file() {
  std::string page = read_whole(fs::path(TPC_SOURCE_DIR) / "docs" / "cluster.md");
  const std::string fence = "```json\n";
  REQUIRE(page.find(fence) != std::string::npos);
  size_t begin = page.find(fence) + fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

void check_page(const fs::path& page) {
  CAPTURE(page.string());
  ScratchFolder scratch(page.stem().string());
  fs::create_directory_symlink(fs::path(TPC_SOURCE_DIR) / "models", scratch.path() / "models");
  std::ofstream(scratch.path() / "cluster.json") << cluster_file();
  Lines lines = lines_of(read_whole(page));
  REQUIRE(!lines.empty());
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i] + "\n";
    if (!lines[i].starts_with("```")) continue;
    Lines block;
    while (++i < lines.size() && lines[i] != "```") block.push_back(lines[i]);
    if (!block.empty() && block[0].starts_with("$ ")) block = replay(block, scratch.path());
    for (const std::string& line : block) text += line + "\n";
    text += "```\n";
  }
  if (updates_golden()) std::ofstream(page) << text;
}

}  // namespace

TEST_CASE("what README shows is what the programs print") { check_page(fs::path(TPC_SOURCE_DIR) / "README.md"); }

TEST_CASE("what docs/search.md shows is what the programs print") {
  check_page(fs::path(TPC_SOURCE_DIR) / "docs" / "search.md");
}

TEST_CASE("what the other pages show is what the programs print") {
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TPC_SOURCE_DIR) / "docs")) {
    if (entry.path().extension() == ".md" && entry.path().filename() != "search.md") check_page(entry.path());
  }
}

}  // namespace tpc::testing

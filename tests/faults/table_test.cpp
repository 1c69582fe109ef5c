// docs/faults.md is held against the tests: every fault has one row, every row that claims something names tests that
// exist, and the counts are those of the rows.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/shell.h"

namespace tpc::testing {
namespace {

namespace fs = std::filesystem;

/// The faults that the page must have: B001 to B087, without numbers that were never given to one.
constexpr std::array kFaults{1,  2,  3,  4,  5,  8,  10, 11, 12, 13, 14, 15, 17, 19, 20, 23, 24, 26, 27, 29, 30,
                             31, 32, 34, 36, 37, 38, 40, 42, 43, 45, 46, 48, 49, 50, 52, 53, 54, 55, 57, 59, 60,
                             62, 63, 64, 66, 67, 68, 70, 71, 74, 76, 77, 78, 79, 80, 81, 82, 85, 86, 87};

const std::vector<std::string> kWords{"cannot happen", "refused", "reported", "open", "waits for"};

struct NamedTest {
  std::string file;
  std::string name;
};

struct Row {
  std::string id;
  std::string word;  ///< one of kWords; "" when the cell begins with none
  std::vector<NamedTest> tests;
};

/// The cells of a table's line, without the empty ones outside the first and last bar.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    size_t begin = cell.find_first_not_of(' ');
    size_t end = cell.find_last_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

std::string page() { return read_whole(fs::path(TPC_SOURCE_DIR) / "docs" / "faults.md"); }

/// The rows of faults: five cells, the first an id.
std::vector<Row> rows_of(const std::string& text) {
  static const std::regex test(R"re(`([^`]+)` "((?:[^"]|"(?!<br>|$))+)"(?:<br>|$))re");
  std::vector<Row> rows;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("| B")) continue;
    std::vector<std::string> cells = cells_of(line);
    if (cells.size() != 5) continue;
    Row row{cells[0], "", {}};
    for (const std::string& word : kWords) {
      if (cells[3].starts_with(word + ":")) row.word = word;
    }
    CAPTURE(line);
    CHECK(cells[1].ends_with("."));
    CHECK(cells[2].find("](https://github.com/") != std::string::npos);
    std::string left = cells[4];
    for (std::smatch match; std::regex_search(left, match, test); left = match.suffix()) {
      row.tests.push_back({match[1], match[2]});
    }
    CHECK_MESSAGE(left == "", "not a test: " << left);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// What follows the name of a case in a file, after its quote: ")", or a decorator; "" when there is no such case.
std::string after_case(const std::string& file, const std::string& name) {
  fs::path path = fs::path(TPC_SOURCE_DIR) / file;
  if (!fs::exists(path)) return "";
  std::string text = read_whole(path);
  const std::string begin = "TEST_CASE(\"" + name + "\"";
  size_t at = text.find(begin);
  return at == std::string::npos ? "" : text.substr(at + begin.size(), 25);
}

}  // namespace

TEST_CASE("docs/faults.md has every fault once, and each claim names tests that exist") {
  std::multiset<std::string> found, wanted;
  for (int number : kFaults) wanted.insert(fmt::format("B{:03}", number));
  for (const Row& row : rows_of(page())) {
    CAPTURE(row.id);
    found.insert(row.id);
    CHECK(row.word != "");
    CHECK(row.tests.empty() == (row.word == "waits for"));
    int failing = 0;
    for (const NamedTest& test : row.tests) {
      std::string after = after_case(test.file, test.name);
      CHECK_MESSAGE(after != "", test.file << " has no case \"" << test.name << "\"");
      failing += after.starts_with(" * doctest::should_fail()") ? 1 : 0;
    }
    CHECK((failing > 0) == (row.word == "open"));
  }
  CHECK(found == wanted);
}

TEST_CASE("docs/faults.md counts its rows") {
  std::map<std::string, int> count;
  std::vector<Row> rows = rows_of(page());
  for (const Row& row : rows) ++count[row.word];
  std::string summary = fmt::format(
      "{} faults: {} cannot happen, {} refused, {} reported, {} open, {} wait for a feature.\n", rows.size(),
      count["cannot happen"], count["refused"], count["reported"], count["open"], count["waits for"]);
  CHECK_MESSAGE(page().find(summary) != std::string::npos, summary);
}

TEST_CASE("every test of a fault stands in the fault's row of docs/faults.md") {
  std::set<std::string> named;
  for (const Row& row : rows_of(page())) {
    for (const NamedTest& test : row.tests) {
      if (test.name.starts_with(row.id)) named.insert(test.file + " " + test.name);
    }
  }
  static const std::regex fault("TEST_CASE\\(\\s*\"(B[0-9]{3}: [^\"]*)\"");
  size_t cases = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TPC_SOURCE_DIR) / "tests" / "faults")) {
    if (entry.path().extension() != ".cpp") continue;
    std::string text = read_whole(entry.path());
    for (auto match = std::sregex_iterator(text.begin(), text.end(), fault); match != std::sregex_iterator(); ++match) {
      std::string name = (*match)[1];
      CHECK_MESSAGE(named.count("tests/faults/" + entry.path().filename().string() + " " + name) == 1, name);
      ++cases;
    }
  }
  CHECK(cases == named.size());
}

}  // namespace tpc::testing

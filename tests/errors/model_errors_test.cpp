// One bad model file each: tests/errors/model/<case>.json, with the overrides of <case>.args ("seq=8" a line), must be
// refused with exactly the text of <case>.err. TPC_UPDATE_GOLDEN=1 rewrites the texts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/core/diagnostic_renderer.h"
#include "compiler/frontend/model.h"

namespace tpc {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(TPC_SOURCE_DIR) / "tests/errors/model";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> cases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

ModelOverrides read_overrides(const std::filesystem::path& path) {
  ModelOverrides overrides;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    size_t equals = line.find('=');
    REQUIRE(equals != std::string::npos);
    overrides.dims[line.substr(0, equals)] = std::stoll(line.substr(equals + 1));
  }
  return overrides;
}

// The rendered refusal. An InternalError is a bug of ours and leaves this function as an exception.
std::string refusal(const std::filesystem::path& path) {
  std::string file = path.filename().string();
  std::string text = read_file(path);
  std::filesystem::path args = path;
  DiagnosticSink sink;
  try {
    parse_model(text, file, read_overrides(args.replace_extension(".args")), sink);
  } catch (const UserError& error) {
    return render_diagnostics(error.diagnostics(), {{file, text}});
  }
  return "accepted\n";
}

TEST_CASE("every mistake in a model file has its message") {
  bool update = std::getenv("TPC_UPDATE_GOLDEN") != nullptr;
  REQUIRE(cases().size() > 100);
  for (const std::filesystem::path& path : cases()) {
    CAPTURE(path.filename().string());
    std::string found;
    REQUIRE_NOTHROW(found = refusal(path));
    CHECK(found != "accepted\n");
    std::filesystem::path expected = path;
    expected.replace_extension(".err");
    if (update) std::ofstream(expected, std::ios::binary) << found;
    CHECK(found == read_file(expected));
  }
}

}  // namespace
}  // namespace tpc

#include "compiler/core/diagnostic_renderer.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace tpc {
namespace {

const std::map<std::string, std::string> kTexts = {{"m.json", "{\n  \"a\": [1, 22],\n\t\"b\": {\n    \"c\": 3}}\n"}};

std::string render(Diagnostic diagnostic) { return render_diagnostics({std::move(diagnostic)}, kTexts); }

TEST_CASE("renderer: place, line, caret and notes") {
  Diagnostic diagnostic{
      Severity::kError, {"m.json", "/a/1"}, "too large", {{{"m.json", "/b", true}, "the limit is here"}}};
  CHECK(render(diagnostic) ==
        "m.json:2:12: error: too large\n"
        "  2 |   \"a\": [1, 22],\n"
        "    |            ^~\n"
        "m.json:3:2: note: the limit is here\n");
}

TEST_CASE("renderer: a value of several lines is marked to the end of its first; tabs keep the caret in place") {
  CHECK(render({Severity::kWarning, {"m.json", "/b"}, "w", {}}) ==
        "m.json:3:7: warning: w\n"
        "  3 |  \"b\": {\n"
        "    |       ^\n");
}

TEST_CASE("renderer: a byte offset in place of a pointer") {
  Diagnostic diagnostic{Severity::kError, {"m.json", ""}, "what", {}};
  diagnostic.byte = 4;
  CHECK(render(diagnostic) ==
        "m.json:2:3: error: what\n"
        "  2 |   \"a\": [1, 22],\n"
        "    |   ^\n");
}

TEST_CASE("renderer: without a text, a file or a way to the place, the message is still there") {
  CHECK(render({Severity::kError, {"other.json", "/a"}, "what", {}}) == "other.json at /a: error: what\n");
  CHECK(render({Severity::kError, {"other.json", ""}, "what", {}}) == "other.json: error: what\n");
  CHECK(render({Severity::kNote, {}, "what", {}}) == "note: what\n");
  CHECK(render({Severity::kError, {"m.json", "/nowhere"}, "what", {}}) == "m.json at /nowhere: error: what\n");
  CHECK(render_diagnostics({{Severity::kError, {"empty.json", ""}, "what", {}}}, {{"empty.json", ""}}) ==
        "empty.json:1:1: error: what\n");
}

TEST_CASE("renderer: control characters of the user's do not reach the terminal") {
  CHECK(render({Severity::kError, {}, "no layer \"a\x1b[31m\nb\"", {}}) == "error: no layer \"a [31m b\"\n");
}

TEST_CASE("renderer: long lines are cut around the caret") {
  std::string text = "{\"" + std::string(500, 'a') + "\": 7, \"b\": 8, \"" + std::string(500, 'c') + "\": 9}";
  std::string out = render_diagnostics({{Severity::kError, {"m", "/b"}, "what", {}}}, {{"m", text}});
  std::string line = out.substr(out.find('\n') + 1);
  std::string marks = line.substr(line.find('\n') + 1);
  CHECK(line.find('\n') < 160);
  CHECK(line[marks.find('^')] == '8');
}

}  // namespace
}  // namespace tpc

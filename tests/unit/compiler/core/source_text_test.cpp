#include "compiler/core/source_text.h"

#include <doctest/doctest.h>

#include <string>

namespace tpc {
namespace {

std::string at(std::string_view text, std::string_view pointer, bool at_key = false) {
  auto span = SourceText(text).locate(pointer, at_key);
  return span ? std::string(text.substr(span->offset, span->length)) : "(nowhere)";
}

TEST_CASE("source text: pointers lead to values and keys") {
  std::string_view text = R"( {"a": [1, {"b": "x, ]}"}, [], -2.5e3], "c/d~e": {"": true}, "\u0061\"q": null} )";
  CHECK(at(text, "") == text.substr(1, text.size() - 2));
  CHECK(at(text, "/a/0") == "1");
  CHECK(at(text, "/a/1") == R"({"b": "x, ]}"})");
  CHECK(at(text, "/a/1/b") == R"("x, ]}")");
  CHECK(at(text, "/a/1/b", true) == R"("b")");
  CHECK(at(text, "/a/2") == "[]");
  CHECK(at(text, "/a/3") == "-2.5e3");
  CHECK(at(text, "/c~1d~0e/") == "true");
  CHECK(at(text, "/a\"q") == "null");
  CHECK(at(text, "/a\"q", true) == R"("\u0061\"q")");
}

TEST_CASE("source text: pointers that lead nowhere") {
  std::string_view text = R"({"a": [1, 2], "b": 3})";
  for (const char* pointer : {"/c", "/a/2", "/a/x", "/a/", "/b/0", "a", "/a/0/0", "/a/99999999999999999999"}) {
    CAPTURE(pointer);
    CHECK(at(text, pointer) == "(nowhere)");
  }
}

TEST_CASE("source text: of duplicate members the last counts") {
  CHECK(at(R"({"a": 1, "a": 2})", "/a") == "2");
  CHECK(SourceText(R"({"a": 1, "a": 2})").locate("/a", true)->offset == 9);
}

TEST_CASE("source text: text that is not JSON ends the search, not the program") {
  for (const char* text :
       {"", "{", "[", "{\"", "{\"a", "{\"a\":", "{\"a\": [", "[1,", "\\", "{\"a\\", "}{", ",,,", "{\"a\" 1}"}) {
    CAPTURE(text);
    for (const char* pointer : {"", "/a", "/a/0", "/0", "/1"}) {
      SourceText source(text);
      auto span = source.locate(pointer);
      if (span) CHECK(span->offset + span->length <= std::string_view(text).size());
    }
  }
}

TEST_CASE("source text: positions count lines and characters") {
  SourceText source(
      "ab\r\n\xC3\xA4"
      "c\n\nlast");
  CHECK(source.position(0) == SourceText::Position{1, 1});
  CHECK(source.position(1) == SourceText::Position{1, 2});
  CHECK(source.position(4) == SourceText::Position{2, 1});
  CHECK(source.position(6) == SourceText::Position{2, 2});  // after the two bytes of one letter
  CHECK(source.position(9) == SourceText::Position{4, 1});
  CHECK(source.position(1000) == SourceText::Position{4, 5});
  CHECK(source.line_at(1) == "ab");
  CHECK(source.line_at(6) ==
        "\xC3\xA4"
        "c");
  CHECK(source.line_at(8) == "");
  CHECK(source.line_at(1000) == "last");
}

TEST_CASE("source text: a byte order mark is no part of the document") {
  CHECK(at("\xEF\xBB\xBF{\"a\": 1}", "/a") == "1");
}

}  // namespace
}  // namespace tpc

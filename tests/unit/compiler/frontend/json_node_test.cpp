#include "compiler/frontend/json_node.h"

#include <doctest/doctest.h>

#include <string>

#include "compiler/frontend/json_text.h"

namespace tpc {
namespace {

const std::string kFile = "m.json";

// The one message of what `read` throws, with its pointer.
template <class Read>
std::string refusal(const Read& read) {
  try {
    read();
  } catch (const UserError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics()[0].loc.pointer + ": " + error.diagnostics()[0].message;
  }
  return "accepted";
}

TEST_CASE("json node: values by type") {
  auto json = parse_json(R"({"i": 3, "x": 2.5, "s": "text", "b": true, "l": [1, "two"], "a/b": 0})", kFile);
  JsonNode node(json, kFile, "the model");
  CHECK(node.required("i", "m").as_int(0, 10) == 3);
  CHECK(node.required("i", "m").as_number() == 3.0);
  CHECK(node.required("x", "m").as_number() == 2.5);
  CHECK(node.required("s", "m").as_string() == "text");
  CHECK(node.bool_or("b", false));
  CHECK(node.bool_or("absent", true));
  CHECK(node.number_or("absent", 1.5) == 1.5);
  CHECK(node.string_or("absent", "x") == "x");
  CHECK(node.required("l", "m").elements()[1].label() == "element 1 of \"l\"");
  CHECK(node.required("l", "m").elements()[1].pointer() == "/l/1");
  CHECK(node.find("a/b")->pointer() == "/a~1b");
  CHECK(node.key_loc("s") == SourceLoc{"m.json", "/s", true});
  CHECK_FALSE(node.has("absent"));
}

TEST_CASE("json node: mismatches say what was wanted and found") {
  auto json =
      parse_json(R"({"i": 3.5, "big": 18446744073709551615, "s": [], "o": {}, "n": null, "w": "colum"})", kFile);
  JsonNode node(json, kFile, "the model");
  auto at = [&](const char* key) { return node.required(key, "\"fc\""); };
  CHECK(refusal([&] { at("i").as_int(0, 9); }) == "/i: \"i\": wanted a whole number, found 3.5");
  CHECK(refusal([&] { at("big").as_int(0, 9); }) ==
        "/big: \"big\": wanted a whole number from 0 to 9, found 18446744073709551615");
  CHECK(refusal([&] { at("s").as_string(); }) == "/s: \"s\": wanted a string, found an empty list");
  CHECK(refusal([&] { at("o").elements(); }) == "/o: \"o\": wanted a list, found an empty object");
  CHECK(refusal([&] { at("n").as_bool(); }) == "/n: \"n\": wanted true or false, found null");
  CHECK(refusal([&] { at("s").members(); }) == "/s: \"s\": wanted an object, found an empty list");
  CHECK(refusal([&] { at("none"); }) == ": \"fc\" needs \"none\"");
  CHECK(refusal([&] {
          at("w").as_word({"column", "row", "replicate"});
        }) == "/w: \"w\": wanted \"column\", \"row\" or \"replicate\", found \"colum\"; did you mean \"column\"?");
}

TEST_CASE("json node: long strings are cut between characters") {
  std::string text = "{\"s\": \"" + std::string(39, 'a') + "\xC3\xA4" + "tail\"}";
  auto json = parse_json(text, kFile);
  CHECK(JsonNode(json, kFile, "m").required("s", "m").found() == "\"" + std::string(39, 'a') + "...\"");
}

TEST_CASE("json node: every unknown key is reported once, the near one named") {
  auto json = parse_json(R"({"input": 1, "ouput": 2, "zzzzzz": 3})", kFile);
  DiagnosticSink sink;
  CHECK(JsonNode(json, kFile, "m").report_unknown_keys({"input", "output"}, "\"fc\"", sink));
  REQUIRE(sink.diagnostics().size() == 2);
  CHECK(sink.diagnostics()[0].message == "\"fc\" has no key \"ouput\"; did you mean \"output\"?");
  CHECK(sink.diagnostics()[0].loc == SourceLoc{"m.json", "/ouput", true});
  CHECK(sink.diagnostics()[1].message == "\"fc\" has no key \"zzzzzz\"; it has \"input\" and \"output\"");
}

TEST_CASE("json text: duplicate keys are found at any depth, all of them") {
  try {
    parse_json(R"({"a": [{"b": 1, "b": 2}, {"c": 1}], "a": {"c": 1, "d": {"e": 1, "e": 2, "e": 3}}})", kFile);
    FAIL("accepted");
  } catch (const UserError& error) {
    REQUIRE(error.diagnostics().size() == 3);
    CHECK(error.diagnostics()[0].loc == SourceLoc{"m.json", "/a/0/b", true});
    CHECK(error.diagnostics()[1].loc == SourceLoc{"m.json", "/a", true});
    CHECK(error.diagnostics()[2].loc == SourceLoc{"m.json", "/a/d/e", true});
  }
}

TEST_CASE("json text: nesting up to the limit is read, beyond it is refused") {
  auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  CHECK_NOTHROW(parse_json(nested(kDeepestNesting), kFile));
  CHECK_THROWS_AS(parse_json(nested(kDeepestNesting + 1), kFile), UserError);
  CHECK_THROWS_AS(parse_json(nested(1'000'000), kFile), UserError);
}

TEST_CASE("json text: every prefix of a document is refused without a crash") {
  std::string text = R"({"a": [1, -2.5e3, true, null, "x\u00e4\\"], "b": {"c": 1e99}})";
  CHECK_NOTHROW(parse_json(text, kFile));
  for (size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(parse_json(text.substr(0, length), kFile), UserError);
  }
}

}  // namespace
}  // namespace tpc

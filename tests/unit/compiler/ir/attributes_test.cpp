#include "compiler/ir/attributes.h"

#include <doctest/doctest.h>

#include <limits>

#include "compiler/core/check.h"

namespace tpc {
namespace {

TEST_CASE("attributes: text") {
  CHECK(to_string(Attribute{true}) == "true");
  CHECK(to_string(Attribute{int64_t{-3}}) == "-3");
  CHECK(to_string(Attribute{0.1}) == "0.1");
  CHECK(to_string(Attribute{2.0}) == "2.0");
  CHECK(to_string(Attribute{-0.0}) == "-0.0");
  CHECK(to_string(Attribute{1e-8}) == "1e-08");
  CHECK(to_string(Attribute{std::string("a \"b\"\n\\")}) == R"("a \"b\"\n\\")");
  CHECK(to_string(Attribute{std::string("\x01")}) == R"("\u0001")");
  CHECK(to_string(Attribute{std::vector<int64_t>{1, 2}}) == "[1, 2]");
  CHECK(to_string(Attribute{std::vector<int64_t>{}}) == "[]");
}

TEST_CASE("attributes: every value parses back with its type") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Attribute> values{true, false};
  for (int64_t number :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    values.emplace_back(number);
    values.emplace_back(static_cast<double>(number));
  }
  for (double number : {0.1, 1.0 / 3.0, 3e-4, 1e300, 5e-324, -kInfinity, kInfinity}) values.emplace_back(number);
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  for (const std::string& text : {std::string(), std::string("bsh,fh->bsf"), std::string("\\n"), all_bytes}) {
    values.emplace_back(text);
  }
  values.emplace_back(std::vector<int64_t>{});
  values.emplace_back(std::vector<int64_t>{0, -7, 1 << 30});
  for (const Attribute& value : values) {
    CAPTURE(to_string(value));
    CHECK(parse_attribute(to_string(value)) == value);
  }
}

TEST_CASE("attributes: malformed text") {
  for (std::string text : {"",     "tru",      "1.2.3",  "0x10",    "--1",       "99999999999999999999", "\"", "\"a",
                           "a\"",  R"("a"b")", R"("\")", R"("\q")", R"("\u12")", R"("\u00ff")",          "[",  "[1",
                           "[1,]", "[,1]",     "[1 2]",  "[1.5]"}) {
    CAPTURE(text);
    CHECK(parse_attribute(text) == std::nullopt);
  }
}

TEST_CASE("attributes: getters hand out what was set and refuse other types") {
  Attributes attributes{{"eps", 1e-5}, {"causal", true}, {"axes", std::vector<int64_t>{0, 1}}};
  attributes.set("rows", int64_t{8});
  attributes.set("init", std::string("normal"));
  CHECK(attributes.has("eps"));
  CHECK_FALSE(attributes.has("scale"));
  CHECK(attributes.get_double("eps") == 1e-5);
  CHECK(attributes.get_bool("causal"));
  CHECK(attributes.get_int("rows") == 8);
  CHECK(attributes.get_string("init") == "normal");
  CHECK(attributes.get_ints("axes") == std::vector<int64_t>{0, 1});
  CHECK_THROWS_AS(attributes.get_double("scale"), InternalError);
  CHECK_THROWS_AS(attributes.get_double("rows"), InternalError);
  CHECK_THROWS_AS(attributes.get_int("eps"), InternalError);
  attributes.set("eps", 1e-6);
  CHECK(attributes.get_double("eps") == 1e-6);
}

}  // namespace
}  // namespace tpc

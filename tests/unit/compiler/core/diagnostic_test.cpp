#include "compiler/core/diagnostic.h"

#include <doctest/doctest.h>

#include "compiler/core/check.h"

namespace tpc {
namespace {

TEST_CASE("diagnostic: a sink throws everything that it collected, once there is an error") {
  DiagnosticSink sink;
  sink.warning({"m.json", "/a"}, "odd");
  CHECK_FALSE(sink.has_errors());
  CHECK_NOTHROW(sink.throw_if_errors());

  sink.error({"m.json", "/b"}, "first", {{{"m.json", "/c"}, "declared here"}});
  sink.error({"m.json", "/d"}, "second");
  CHECK(sink.has_errors());
  try {
    sink.throw_if_errors();
    FAIL("nothing thrown");
  } catch (const UserError& error) {
    REQUIRE(error.diagnostics().size() == 3);
    CHECK(error.diagnostics()[0].severity == Severity::kWarning);
    CHECK(error.diagnostics()[1].loc == SourceLoc{"m.json", "/b"});
    CHECK(error.diagnostics()[1].notes.at(0).message == "declared here");
    CHECK(std::string(error.what()) == "odd; first; second");
  }
}

TEST_CASE("diagnostic: a user error without a diagnostic is a bug of ours") {
  CHECK_THROWS_AS(UserError(std::vector<Diagnostic>{}), InternalError);
}

TEST_CASE("diagnostic: the nearest word is suggested when it is near") {
  std::vector<std::string> ops{"linear", "layer_norm", "rms_norm", "gelu"};
  CHECK(nearest_word("linaer", ops) == "linear");
  CHECK(nearest_word("layernorm", ops) == "layer_norm");
  CHECK(nearest_word("gelu", ops) == "gelu");
  CHECK(nearest_word("convolution", ops).empty());
  CHECK(nearest_word("x", {}).empty());
}

TEST_CASE("check: an internal error names place, condition and values") {
  int found = 3;
  CHECK_NOTHROW([&] { TPC_CHECK(found == 3, "found {}", found); }());
  try {
    TPC_CHECK(found == 4, "found {}", found);
    FAIL("nothing thrown");
  } catch (const InternalError& error) {
    std::string text = error.what();
    CHECK(text.find("diagnostic_test.cpp:") != std::string::npos);
    CHECK(text.find("found == 4") != std::string::npos);
    CHECK(text.find("found 3") != std::string::npos);
  }
}

}  // namespace
}  // namespace tpc

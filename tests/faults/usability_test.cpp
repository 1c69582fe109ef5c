// Messages that told a rule and no way out.
#include <doctest/doctest.h>

#include "compiler/plan/report.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {

TEST_CASE("B048: sizes too small for tp are all named at once, with the layer and the values of tp that work") {
  // What other systems refuse, 64 heads on 3 ranks, is a plan; the fullest rank is told.
  FaultModel model =
      shipped("small_gpt", {{"seq", 6}, {"vocab", 19}, {"hidden", 12}, {"head_dim", 1}, {"ffn", 21}, {"heads", 64}});
  CHECK(difference_from_one_rank(model, on("tp=3"), 1) == "");
  Report report = make_report(plan_of(model, on("tp=3")));
  REQUIRE(!report.imbalances.empty());
  CHECK(report.imbalances[0].fullest_rank == 0);

  model.dims = {{"heads", 2}, {"vocab", 3}, {"ffn", 2}};
  std::string message = compile_error(model, on("tp=4"));
  CAPTURE(message);
  for (const char* words :
       {"\"embed\" is split by vocab (3), too few for tp 4: every rank needs at least one; tp 1 to 3 work",
        "\"block0.qkv\" is split by heads (2), too few for tp 4: every rank needs at least one; tp 1 to 2 work",
        "\"block0.fc1\" is split by ffn (2), too few for tp 4: every rank needs at least one; tp 1 to 2 work"}) {
    CHECK(message.find(words) != std::string::npos);
  }
}

}  // namespace tpc::testing

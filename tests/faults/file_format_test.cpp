// Files that say a thing twice.
#include <doctest/doctest.h>

#include "compiler/core/diagnostic.h"
#include "compiler/frontend/cluster.h"
#include "compiler/plan/plan_json.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

template <class Read>
std::string message_of(const Read& read) {
  try {
    read();
  } catch (const UserError& error) {
    return error.diagnostics()[0].message;
  }
  return "";
}

}  // namespace

TEST_CASE("B064: a member that stands twice in a model, plan or cluster file is refused by its name") {
  FaultModel model = with(shipped("mlp"), R"("features": 64,)", R"("features": 64, "features": 32,)");
  CHECK(message_of([&] { plan_of(model, on("tp=2")); }) == "\"features\" stands twice in one object");

  std::string plan = write_plan(plan_of(shipped("mlp"), on("tp=2")));
  const std::string version = R"("version": 1,)";
  plan.insert(plan.find(version), version);
  CHECK(message_of([&] { read_plan(plan, "plan.json"); }) == "member \"version\" stands here twice");

  const std::string cluster =
      R"({"format": "tpc-cluster", "version": 1, "axes": {"tp": {"gigabytes_per_second": 1, "microseconds": 1, "microseconds": 2}}})";
  CHECK(message_of([&] { parse_cluster(cluster, "cluster.json", *parse_mesh("tp=2")); }) ==
        "\"microseconds\" stands twice in one object");
}

}  // namespace tpc::testing

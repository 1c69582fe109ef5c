#include "compiler/plan/report.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "compiler/plan/rank_plan.h"
#include "tests/unit/compiler/plan/sample_plan.h"

namespace tpc {

TEST_CASE("a collective is told with its volume, its bytes and its reason") {
  Report report = make_report(sample_plan());
  CHECK(report.phi.tensor == "x");
  CHECK(report.phi.elements == 32);
  REQUIRE(report.collectives.size() == 1);
  const CollectiveRow& row = report.collectives[0];
  CHECK(row.tensor == "fc2");
  CHECK(row.layer == "fc2");
  CHECK(row.axis == "tp");
  CHECK(row.kind == OpKind::kAllReduce);
  CHECK(row.elements == 32);
  CHECK(row.volume_phi == 2);
  CHECK(row.received_bytes_max == 128);
  CHECK(row.received_bytes_min == 128);
  CHECK(row.ring_bytes == 128);
  CHECK(row.why == "each rank holds a part of the result of \"fc2\"");
  CHECK(report.step.received_bytes == 128);
  CHECK(report.by_axis.size() == 1);
}

TEST_CASE("loads of ranks") {
  Report report = make_report(sample_plan());
  REQUIRE(report.ranks.size() == 2);
  const RankLoad& rank = report.ranks[1];
  CHECK(rank.parameters == 48);
  CHECK(rank.parameter_bytes == 192);
  CHECK(rank.input_bytes == 128);
  // Two contractions of 4 x 8 x 3.
  CHECK(rank.multiply_adds == 192);
  // fc2 (128 bytes) and its sum (128 bytes) at the all_reduce.
  CHECK(rank.peak_activation_bytes == 256);
  CHECK(rank.peak_step == 3);
}

TEST_CASE("uneven blocks: exact bytes, and the fullest rank against the mean") {
  Plan plan = sample_plan();
  plan.mesh = DeviceMesh({{"tp", 4}});
  Report report = make_report(plan);
  REQUIRE(report.ranks.size() == 4);
  // ffn 6 on 4 ranks: 2, 2, 1, 1.
  CHECK(report.ranks[0].parameters == 32);
  CHECK(report.ranks[3].parameters == 16);
  CHECK(report.imbalances[0].ratio() == doctest::Approx(32.0 / 24));
  int64_t all = 0;
  for (int64_t rank = 0; rank < 4; ++rank) {
    int64_t received = rank_plan(plan, rank).received_bytes();
    CHECK(report.ranks[static_cast<size_t>(rank)].received_bytes == received);
    all += received;
  }
  // The ring formula is the mean.
  CHECK(report.collectives[0].ring_bytes == doctest::Approx(static_cast<double>(all) / 4));
}

TEST_CASE("a large world is sampled: the samples stand for every rank") {
  Plan plan = sample_plan();
  plan.mesh = DeviceMesh({{"dp", 64}, {"tp", 4}});
  for (PlanTensor& tensor : plan.tensors) {
    tensor.sharding.placements.insert(tensor.sharding.placements.begin(), Placement::replicate());
  }
  plan.steps[3].attributes.set("axes", std::vector<int64_t>{1});
  Report report = make_report(plan);
  CHECK(!report.has_all_ranks);
  int64_t ranks = 0;
  int64_t parameters = 0;
  for (const RankLoad& rank : report.ranks) {
    ranks += rank.ranks_like_it;
    parameters += rank.ranks_like_it * rank.parameters;
  }
  CHECK(ranks == 256);
  CHECK(parameters == 64 * 96);
}

TEST_CASE("the JSON and CSV forms hold what the report holds") {
  Report report = make_report(sample_plan());
  nlohmann::json json = nlohmann::json::parse(report_json(report));
  CHECK(json["format"] == "tpc-report");
  CHECK(json["collectives"].size() == 1);
  CHECK(json["collectives"][0]["received_bytes_max"] == 128);
  CHECK(json["totals"]["step"]["volume_phi"] == 2);
  CHECK(json["ranks"].size() == 2);
  std::string csv = report_csv(report);
  CHECK(csv.find(
            "3,fc2,fc2,fc2,forward,tp,all_reduce,f32,2,32,64,2,128,128,128,\"each rank holds a part of the result of "
            "\"\"fc2\"\"\",0\n") != std::string::npos);
}

TEST_CASE("the text tells the unit and the reason") {
  std::string text = report_text(make_report(sample_plan()));
  CHECK(text.find("Φ = 4·8 = 32 elements") != std::string::npos);
  CHECK(text.find("each rank holds a part of the result of \"fc2\"") != std::string::npos);
}

}  // namespace tpc

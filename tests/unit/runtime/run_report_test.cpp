#include "runtime/run_report.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

namespace tpc {
namespace {

TEST_CASE("a metrics line is JSON that gives the same floats back") {
  StepRecord record{12, {5.8012896F, std::nullopt}, 5.25, 24380.95};
  std::string line = metrics_line(record);
  CHECK(line.back() == '\n');
  auto json = nlohmann::json::parse(line);
  CHECK(json["step"] == 12);
  CHECK(json["loss"].get<float>() == 5.8012896F);
  CHECK(json["ms"] == 5.25);
  CHECK_FALSE(json.contains("grad_norm"));
  record.result.grad_norm = 0.1F;
  CHECK(nlohmann::json::parse(metrics_line(record))["grad_norm"].get<float>() == 0.1F);
}

TEST_CASE("the summary gives first and last loss and medians") {
  std::vector<StepRecord> records;
  for (uint64_t i = 0; i < 4; ++i) {
    records.push_back(
        {i, {5.0F - static_cast<float>(i), std::nullopt}, i == 0 ? 100.0 : 4.0 + static_cast<double>(i), 2000});
  }
  CHECK(run_summary(records) == "4 steps: loss 5.000000 -> 2.000000, median 6.50 ms a step, 2000 tokens/s\n");
  CHECK(step_line(records[1], 50) == "step  1/50  loss 4.000000  5.00 ms  2000 tokens/s");
}

TEST_CASE("traffic is shown per kind and phase") {
  Traffic traffic{{{OpKind::kAllReduce, Phase::kForward}, 1234567}, {{OpKind::kAllGather, Phase::kBackward}, 12}};
  CHECK(traffic_table(traffic, traffic) ==
        "bytes received                        counted           predicted\n"
        "all_gather     backward                    12                  12\n"
        "all_reduce     forward              1,234,567           1,234,567\n"
        "all                                 1,234,579           1,234,579\n");
  CHECK(traffic_table({}, {}) == "no communication\n");
}

}  // namespace
}  // namespace tpc

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

TEST_CASE("times of steps that were measured unit by unit are no times of the run") {
  StepRecord ordinary{0, {5.0F, std::nullopt}, 4, 1000};
  StepRecord profiled{1, {4.0F, std::nullopt}, 100, 10, true};
  CHECK(run_summary({ordinary, profiled}) ==
        "2 steps: loss 5.000000 -> 4.000000, median 4.00 ms a step, 1000 tokens/s\n");
  CHECK(run_summary({profiled}) == "1 step: loss 4.000000 -> 4.000000, median 100.00 ms a step, 10 tokens/s\n");
  CHECK(nlohmann::json::parse(metrics_line(profiled))["profiled"] == true);
}

TEST_CASE("a run's summary has device memory where the device has memory of its own") {
  StepRecord record{0, {5.5F, std::nullopt}, 4, 1000};
  Traffic traffic{{{OpKind::kAllReduce, Phase::kForward}, 12}};
  auto json = nlohmann::json::parse(summary_json({record}, traffic, traffic, std::nullopt));
  CHECK(json["first_loss"] == 5.5);
  CHECK(json["received_bytes"] == 12);
  CHECK_FALSE(json.contains("device_memory"));
  DeviceMemoryReport memory{1, int64_t{4} << 28, {int64_t{5} << 28, {int64_t{5} << 28, int64_t{6} << 28}}};
  json = nlohmann::json::parse(summary_json({record}, traffic, traffic, memory));
  CHECK(json["device_memory"]["used"] == int64_t{6} << 28);
  CHECK(memory_line(memory) == "device memory: plan 1.25 GiB (arena 1.00 GiB), used 1.50 GiB (1.200)\n");
}

}  // namespace
}  // namespace tpc

#include "runtime/unit_profile.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/cpu/cpu_backend.h"
#include "runtime/data.h"
#include "runtime/trainer.h"
#include "tests/unit/runtime/small_plans.h"

namespace tpc {
namespace {

Plan plan_of(std::vector<OpKind> ops) {
  Plan plan;
  plan.model_name = "test";
  for (OpKind op : ops) {
    plan.steps.emplace_back();
    plan.steps.back().op = op;
    plan.steps.back().layer = "layer";
  }
  return plan;
}

TEST_CASE("the last five steps are measured, and never the first where there is another") {
  CHECK(first_profiled_step(1) == 0);
  CHECK(first_profiled_step(2) == 1);
  CHECK(first_profiled_step(6) == 1);
  CHECK(first_profiled_step(50) == 45);
}

TEST_CASE("a unit's time is the median of the measured steps") {
  auto step = [](double a, double b) {
    return std::vector<UnitTime>{{0, 1, {OpKind::kAdd}, DeviceQueueKind::kCompute, a},
                                 {1, 2, {OpKind::kAllReduce}, DeviceQueueKind::kCommunication, b}};
  };
  UnitProfile profile = unit_profile({step(3, 10), step(1, 30), step(2, 20)});
  CHECK(profile.num_steps == 3);
  CHECK(profile.units[0].ms == 2);
  CHECK(profile.units[1].ms == 20);
}

TEST_CASE("totals are by the ops of a unit, the most time first") {
  Plan plan = plan_of({OpKind::kContract, OpKind::kAdd, OpKind::kSoftmax, OpKind::kAdamW, OpKind::kAdamW,
                       OpKind::kAdamW, OpKind::kContract, OpKind::kAdd});
  DeviceQueueKind queue = DeviceQueueKind::kCompute;
  UnitProfile profile{{{0, 2, {OpKind::kContract, OpKind::kAdd}, queue, 1},
                       {2, 3, {OpKind::kSoftmax}, queue, 2.5},
                       {3, 5, {OpKind::kAdamW, OpKind::kAdamW}, queue, 0.5},
                       {5, 6, {OpKind::kAdamW}, queue, 0.25},
                       {6, 8, {OpKind::kContract, OpKind::kAdd}, queue, 3}},
                      2};
  CHECK(unit_ops(profile.units[0]) == "contract+add");
  CHECK(unit_ops(profile.units[2]) == "adamw*2");
  CHECK(profile_table(profile) ==
        "op            calls     ms    share\n"
        "contract+add      2  4.000   55.2 %\n"
        "softmax           1  2.500   34.5 %\n"
        "adamw             2  0.750   10.3 %\n"
        "all               5  7.250  100.0 %\n");
  auto json = nlohmann::json::parse(profile_json(profile, plan, "cpu", 0));
  CHECK(json["ms"] == 7.25);
  CHECK(json["units"].size() == 5);
  CHECK(json["units"][2]["steps"] == nlohmann::json({3, 5}));
  CHECK(json["totals"][0]["op"] == "contract+add");
  CHECK(json["totals"][0]["calls"] == 2);
}

TEST_CASE("every kernel and collective of a run is measured, and the numbers stay what they are") {
  for (int64_t ranks : {1, 3}) {
    CAPTURE(ranks);
    Plan plan = testing::two_layer_plan(ranks);
    std::unique_ptr<DataSource> data = fixed_data(plan, 5);
    Trainer plain(plan, make_cpu_backend, {.threads_per_rank = 1});
    Trainer measured(plan, make_cpu_backend, {.threads_per_rank = 1});
    measured.time_units();
    for (uint64_t step = 0; step < 3; ++step) {
      CHECK(plain.train_step(data->batch(step)).loss == measured.train_step(data->batch(step)).loss);
    }
    std::vector<UnitTime> units = measured.unit_times();
    REQUIRE(!units.empty());
    for (const UnitTime& unit : units) CHECK(unit.ms > 0);
    measured.check_traffic();
    CHECK_FALSE(measured.memory_use().has_value());
  }
}

}  // namespace
}  // namespace tpc

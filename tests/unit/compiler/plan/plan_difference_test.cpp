// What differs between two plans: nothing of a plan and itself, the same from either side, and what the reports say.
#include "compiler/plan/plan_difference.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "compiler/plan/report.h"
#include "tests/support/program.h"
#include "tests/unit/compiler/plan/sample_plan.h"

namespace tpc {
namespace {

std::vector<Plan> plans_of(const std::string& model) {
  std::vector<Plan> plans;
  for (const testing::MeshCase& mesh : testing::megatron_cases()) {
    plans.push_back(testing::compile_model(model, {{"batch", 4}}, mesh).plan);
  }
  testing::MeshCase searched{"", DeviceMesh({{"dp", 2}, {"tp", 2}}), false, 0, "search"};
  plans.push_back(testing::compile_model(model, {{"batch", 4}}, searched).plan);
  return plans;
}

/// The same from the other side.
PlanDifference mirrored(PlanDifference difference) {
  std::swap(difference.before, difference.after);
  auto swap_sides = [](auto& items) {
    for (auto& item : items) std::swap(item.before, item.after);
  };
  swap_sides(difference.settings);
  swap_sides(difference.amounts);
  swap_sides(difference.collectives);
  swap_sides(difference.types);
  swap_sides(difference.placements);
  for (LoneTensor& lone : difference.lone_tensors) lone.is_before = !lone.is_before;
  return difference;
}

/// Without the order, and without layers: these are the first plan's.
PlanDifference sorted(PlanDifference difference) {
  auto forget_layers = [](auto& items) {
    for (auto& item : items) item.layer.clear();
  };
  forget_layers(difference.collectives);
  forget_layers(difference.types);
  forget_layers(difference.placements);
  auto sort_by = [](auto& items, auto&& key) {
    std::sort(items.begin(), items.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  };
  sort_by(difference.amounts, [](const AmountChange& item) { return std::pair(item.group, item.name); });
  sort_by(difference.collectives, [](const CollectiveChange& item) {
    return std::pair(item.before ? item.before->step : -1, item.after ? item.after->step : -1);
  });
  sort_by(difference.types, [](const TensorChange& item) { return item.tensor; });
  sort_by(difference.placements, [](const TensorChange& item) { return item.tensor; });
  sort_by(difference.lone_tensors, [](const LoneTensor& item) { return std::pair(item.tensor, item.is_before); });
  return difference;
}

/// Bytes that all collectives of a side receive.
int64_t bytes_of(const PlanDifference& difference, std::optional<CollectiveSide> CollectiveChange::*side) {
  int64_t bytes = 0;
  for (const CollectiveChange& change : difference.collectives) {
    if (change.*side) bytes += (change.*side)->received_bytes;
  }
  return bytes;
}

int64_t bytes_of(const Report& report) {
  int64_t bytes = 0;
  for (const CollectiveRow& row : report.collectives) bytes += row.received_bytes_max;
  return bytes;
}

void check_amount(const PlanDifference& difference, const std::string& group, const std::string& name, int64_t before,
                  int64_t after) {
  CAPTURE(group);
  CAPTURE(name);
  auto found = std::find_if(difference.amounts.begin(), difference.amounts.end(),
                            [&](const AmountChange& item) { return item.group == group && item.name == name; });
  if (found == difference.amounts.end()) {
    CHECK(before == after);
    return;
  }
  CHECK(found->before == static_cast<double>(before));
  CHECK(found->after == static_cast<double>(after));
}

int64_t received_in(const Report& report, const std::string& phase) {
  for (const VolumeTotal& total : report.by_phase) {
    if (total.name == phase) return total.received_bytes;
  }
  return 0;
}

void check_pairs(const std::string& model) {
  std::vector<Plan> plans = plans_of(model);
  // Each with itself and with two others.
  for (size_t i = 0; i < plans.size(); ++i) {
    const Plan& a = plans[i];
    CAPTURE(i);
    CHECK(difference(a, a).empty());
    CHECK(difference_text(difference(a, a)).starts_with("No difference: "));
    for (size_t step : {1, 5}) {
      const Plan& b = plans[(i + step) % plans.size()];
      PlanDifference found = difference(a, b);
      CHECK_FALSE(found.empty());
      CHECK(sorted(mirrored(found)) == sorted(difference(b, a)));
      Report before = make_report(a);
      Report after = make_report(b);
      CHECK(bytes_of(found, &CollectiveChange::after) - bytes_of(found, &CollectiveChange::before) ==
            bytes_of(after) - bytes_of(before));
      check_amount(found, "received", "step", before.step.received_bytes, after.step.received_bytes);
      for (const char* phase : {"forward", "backward", "optimizer"}) {
        check_amount(found, "received by phase", phase, received_in(before, phase), received_in(after, phase));
      }
      check_amount(found, "memory", "arena", a.arena_bytes, b.arena_bytes);
      CHECK(nlohmann::json::parse(difference_json(found)).at("equal") == false);
      // A tensor that is told lies as is told on each side, which is not the same.
      for (const TensorChange& change : found.placements) CHECK(change.before != change.after);
    }
  }
}

}  // namespace

TEST_CASE("differences of plans of tiny_gpt mirror each other and are the reports'") { check_pairs("tiny_gpt"); }
TEST_CASE("differences of plans of llama_tiny mirror each other and are the reports'") { check_pairs("llama_tiny"); }

TEST_CASE("a collective of another kind is one change, one that only one plan has another") {
  testing::MeshCase mesh{"", DeviceMesh({{"tp", 2}})};
  Plan plain = testing::compile_model("tiny_gpt", {}, mesh).plan;
  mesh.sequence_parallel = true;
  Plan split = testing::compile_model("tiny_gpt", {}, mesh).plan;
  PlanDifference found = difference(plain, split);
  auto change_of = [&](const std::string& tensor) {
    for (const CollectiveChange& change : found.collectives) {
      if (change.tensor == tensor && change.phase == Phase::kForward) return change;
    }
    FAIL("no change of " << tensor);
    return CollectiveChange{};
  };
  CollectiveChange sum = change_of("block0.proj.product");
  REQUIRE(sum.before.has_value());
  REQUIRE(sum.after.has_value());
  CHECK(sum.before->kind == OpKind::kAllReduce);
  CHECK(sum.after->kind == OpKind::kReduceScatter);
  CHECK(sum.after->received_bytes * 2 == sum.before->received_bytes);
  CollectiveChange gather = change_of("block0.ln2");
  CHECK_FALSE(gather.before.has_value());
  CHECK(gather.after->kind == OpKind::kAllGather);
}

TEST_CASE("what dp adds by its rule is no difference of placements") {
  Plan one = testing::compile_model("tiny_gpt", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  Plan two = testing::compile_model("tiny_gpt", {}, {"", DeviceMesh({{"dp", 2}, {"tp", 2}})}).plan;
  CHECK(difference(one, two).placements.empty());
  CHECK_FALSE(difference(one, two).collectives.empty());
}

TEST_CASE("plans of two models compare by name") {
  testing::MeshCase mesh{"", DeviceMesh({{"tp", 2}})};
  Plan mlp = testing::compile_model("mlp", {}, mesh).plan;
  Plan gpt = testing::compile_model("tiny_gpt", {}, mesh).plan;
  PlanDifference found = difference(mlp, gpt);
  CHECK_FALSE(found.is_same_model);
  CHECK(difference_text(found).find("Two models") != std::string::npos);
  bool has_embedding = std::any_of(found.lone_tensors.begin(), found.lone_tensors.end(), [](const LoneTensor& lone) {
    return lone.tensor == "embed.weight" && !lone.is_before;
  });
  CHECK(has_embedding);
}

TEST_CASE("plans that cost the same and are not equal say in what") {
  Plan plan = sample_plan();
  Plan other = plan;
  other.steps[0].why = "because";
  CHECK(difference(plan, other).details == std::vector<std::string>{"reasons"});
  other = plan;
  other.tensors[0].offset += 64;
  CHECK(difference(plan, other).details == std::vector<std::string>{"where tensors lie in the arena"});
  CHECK(difference_text(difference(plan, other)).find("They differ in where tensors lie") != std::string::npos);
}

}  // namespace tpc

// The parts of the check of a run: comparing elements, counting what is added up, walking back to a collective.
#include <doctest/doctest.h>

#include <limits>

#include "runtime/check/check_report.h"
#include "runtime/check/elements.h"
#include "runtime/check/model_step.h"
#include "tests/unit/runtime/small_plans.h"

namespace tpc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("a part is compared with its region of the whole") {
  const Shape shape{3, 4};
  Values whole = std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<float> part{5, 6, 9, 10};
  RankPart held{{{{1, 3}, {1, 3}}}, std::span(part)};
  Comparison same = compare_part(held, whole, shape, 0);
  CHECK(same.num_elements == 4);
  CHECK(same.num_differing == 0);
  CHECK(same.largest == 0);

  part = {5, 6.25F, 9, 11};
  Comparison other = compare_part(held, whole, shape, 0.25);
  CHECK(other.num_differing == 1);
  CHECK(other.first == 10);
  CHECK(other.found == 11);
  CHECK(other.wanted == 10);
  CHECK(other.largest == 1);

  load_part(whole, shape, held);
  CHECK(part == std::vector<float>{5, 6, 9, 10});
}

TEST_CASE("a NaN is equal to a NaN and infinitely far from a number") {
  Values whole = std::vector<float>{kNan, 1, std::numeric_limits<float>::infinity()};
  std::vector<float> part{kNan, 1, std::numeric_limits<float>::infinity()};
  RankPart held{{{{0, 3}}}, std::span(part)};
  CHECK(compare_part(held, whole, {3}, 0).num_differing == 0);
  part[1] = kNan;
  Comparison comparison = compare_part(held, whole, {3}, 1e30);
  CHECK(comparison.num_differing == 1);
  CHECK(comparison.largest == kInfinity);
  CHECK(magnitude(whole) == 1);
}

TEST_CASE("replicas are compared by their bits") {
  CHECK(first_unequal(std::vector<float>{1, kNan}, std::vector<float>{1, kNan}) == -1);
  CHECK(first_unequal(std::vector<float>{1, 0.0F}, std::vector<float>{1, -0.0F}) == 1);
  CHECK(first_unequal(std::vector<double>{}, std::vector<double>{}) == -1);
}

TEST_CASE("parts add up, or give their maximum, and tell how large they were") {
  std::vector<Values> parts{std::vector<float>{3, -1}, std::vector<float>{-2, -4}};
  double scale = 0;
  CHECK(combine_parts(parts, ReduceOp::kSum, scale) == std::vector<double>{1, -5});
  CHECK(scale == 5);
  CHECK(combine_parts(parts, ReduceOp::kMax, scale) == std::vector<double>{3, -1});
  CHECK(scale == 4);
}

TEST_CASE("the terms of a sum are the indices that its result lacks or mixes") {
  testing::PlanBuilder b{DeviceMesh()};
  int x = b.tensor("x", {2, 3, 5}, {}), w = b.tensor("w", {5, 7}, {}), y = b.tensor("y", {2, 3, 7}, {});
  int gain = b.tensor("gain", {7}, {}), bias = b.tensor("bias", {7}, {});
  int norm = b.tensor("norm", {2, 3, 7}, {}), mean = b.tensor("mean", {2, 3}, {}), rstd = b.tensor("rstd", {2, 3}, {});
  int dw = b.tensor("dw", {5, 7}, {}), sum = b.tensor("sum", {2, 3, 7}, {}), squares = b.tensor("squares", {}, {});
  b.step(OpKind::kContract, {x, w}, {y}, {{"einsum", std::string("bsi,io->bso")}});
  b.step(OpKind::kContract, {x, y}, {dw}, {{"einsum", std::string("bsi,bso->io")}});
  b.step(OpKind::kLayerNorm, {y, gain, bias}, {norm, mean, rstd}, {{"eps", 1e-5}});
  b.step(OpKind::kAdd, {y, norm}, {sum});
  b.step(OpKind::kSumSquares, {sum}, {squares});
  const Plan& plan = b.plan();
  auto terms = [&](size_t step, size_t result) { return count_terms(plan, plan.steps[step], result); };
  CHECK(terms(0, 0) == 5);
  CHECK(terms(1, 0) == 6);
  CHECK(terms(2, 0) == 7);
  CHECK(terms(2, 1) == 7);
  CHECK(terms(3, 0) == 1);
  CHECK(terms(4, 0) == 42);
}

TEST_CASE("the collective that feeds a step is the nearest one before it") {
  Plan plan = testing::two_layer_plan(2);
  // 0 h, 1 partial_y, 2 all_reduce, 3 loss, 4 grad.y, 5 grad.w2, ...
  CHECK(feeding_collective(plan, 0) == -1);
  CHECK(feeding_collective(plan, 2) == -1);
  CHECK(feeding_collective(plan, 3) == 2);
  CHECK(feeding_collective(plan, 7) == 2);
}

}  // namespace
}  // namespace tpc

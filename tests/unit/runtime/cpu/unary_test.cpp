// How near the vectorised elementary functions come to those of the standard library in double.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/unit/runtime/cpu/kernel_run.h"

namespace tpc::testing {
namespace {

/// The cpu kernel's f(x) for every x.
std::vector<double> evaluate(const std::string& function, const std::vector<double>& x) {
  const TensorType type{DType::kF32, {static_cast<int64_t>(x.size())}};
  const Region region = whole_region(type.shape);
  RankStep step{.op = OpKind::kUnary,
                .attributes = {{"function", function}},
                .operands = {{type, region, x}},
                .results = {{type, region, {}}}};
  return run_cpu(step)[0];
}

std::vector<double> floats_between(double low, double high, int count) {
  std::vector<double> x;
  for (int i = 0; i <= count; ++i) x.push_back(static_cast<double>(static_cast<float>(low + (high - low) * i / count)));
  return x;
}

/// Largest error relative to |expected| + floor.
template <class Function>
double largest_error(const std::string& function, const std::vector<double>& x, double floor, Function expected) {
  const std::vector<double> found = evaluate(function, x);
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = expected(x[i]);
    largest = std::max(largest, std::abs(found[i] - wanted) / (std::abs(wanted) + floor));
  }
  return largest;
}

}  // namespace

TEST_CASE("exp is accurate over the whole range of a float") {
  CHECK_LT(largest_error("exp", floats_between(-87, 88.7, 200000), 0, [](double x) { return std::exp(x); }), 2e-7);
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> ends = evaluate("exp", {-1000, -infinity, 1000, infinity, 0, std::nan("")});
  CHECK_EQ(ends[0], 0);
  CHECK_EQ(ends[1], 0);
  CHECK_EQ(ends[2], infinity);
  CHECK_EQ(ends[3], infinity);
  CHECK_EQ(ends[4], 1);
  CHECK(std::isnan(ends[5]));
}

TEST_CASE("tanh and sigmoid are accurate in relative terms") {
  CHECK_LT(largest_error("tanh", floats_between(-12, 12, 100000), 1e-30, [](double x) { return std::tanh(x); }), 3e-7);
  CHECK_LT(largest_error("tanh", floats_between(-0.01, 0.01, 10001), 1e-30, [](double x) { return std::tanh(x); }),
           3e-7);
  CHECK_LT(
      largest_error("sigmoid", floats_between(-80, 30, 100000), 0, [](double x) { return 1 / (1 + std::exp(-x)); }),
      5e-7);
}

TEST_CASE("gelu follows the error function, in the left tail too") {
  auto gelu = [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); };
  CHECK_LT(largest_error("gelu", floats_between(-4, 10, 100000), 1e-30, gelu), 2e-6);
  CHECK_LT(largest_error("gelu", floats_between(-1, 10, 100000), 1e-30, gelu), 5e-7);
  CHECK_LT(largest_error("gelu", floats_between(-10, 10, 100000), 1, gelu), 2e-7);
}

}  // namespace tpc::testing

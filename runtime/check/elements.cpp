#include "runtime/check/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/core/check.h"
#include "compiler/lowering/region_copy.h"

namespace tpc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double distance(double a, double b) {
  // The same infinity twice, and NaN twice, are no distance apart.
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  double difference = std::abs(a - b);
  return std::isnan(difference) ? kInfinity : difference;
}

}  // namespace

Values copy_of(const Elements& elements) {
  return std::visit(
      [](auto span) -> Values {
        return std::vector<std::remove_const_t<typename decltype(span)::element_type>>(span.begin(), span.end());
      },
      elements);
}

Elements view_of(Values& values) {
  return std::visit([](auto& vector) -> Elements { return std::span(vector); }, values);
}

double element(const Values& values, int64_t i) {
  return std::visit([i](const auto& vector) { return static_cast<double>(vector[static_cast<size_t>(i)]); }, values);
}

double magnitude(const Values& values) {
  double largest = 0;
  std::visit(
      [&](const auto& vector) {
        for (auto x : vector) {
          double size = std::abs(static_cast<double>(x));
          if (std::isfinite(size)) largest = std::max(largest, size);
        }
      },
      values);
  return largest;
}

void load_part(const Values& whole, const Shape& shape, const RankPart& part) {
  RegionCopy copy(whole_region(shape), part.region);
  std::visit(
      [&](auto target) {
        const auto* source = std::get_if<std::vector<typename decltype(target)::element_type>>(&whole);
        TPC_CHECK(source != nullptr, "a part in another precision than the whole");
        copy.for_each_run([&](int64_t from, int64_t to, int64_t length) {
          std::copy_n(source->data() + from, length, target.data() + to);
        });
      },
      part.elements);
}

Comparison compare_part(const RankPart& part, const Values& whole, const Shape& shape, double tolerance) {
  Comparison result;
  RegionCopy runs(whole_region(shape), part.region);
  result.num_elements = runs.num_elements();
  std::visit(
      [&](auto found, const auto& wanted) {
        runs.for_each_run([&](int64_t global, int64_t local, int64_t length) {
          for (int64_t i = 0; i < length; ++i) {
            auto a = static_cast<double>(found[static_cast<size_t>(local + i)]);
            auto b = static_cast<double>(wanted[static_cast<size_t>(global + i)]);
            double difference = distance(a, b);
            result.largest = std::max(result.largest, difference);
            if (difference <= tolerance) continue;
            if (result.num_differing++ > 0) continue;
            result.first = global + i;
            result.found = a;
            result.wanted = b;
          }
        });
      },
      part.elements, whole);
  return result;
}

int64_t first_unequal(const Values& a, const Values& b) {
  return std::visit(
      [&](const auto& x) -> int64_t {
        const auto& y = std::get<std::remove_cvref_t<decltype(x)>>(b);
        TPC_CHECK(x.size() == y.size(), "replicas of {} and {} elements", x.size(), y.size());
        if (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0) return -1;
        for (size_t i = 0; i < x.size(); ++i) {
          if (std::memcmp(&x[i], &y[i], sizeof(x[i])) != 0) return static_cast<int64_t>(i);
        }
        return -1;
      },
      a);
}

std::vector<double> combine_parts(std::span<const Values> parts, ReduceOp op, double& scale) {
  std::vector<double> sum, sizes;
  for (const Values& part : parts) {
    std::visit(
        [&](const auto& values) {
          bool is_first = sum.empty();
          sum.resize(values.size());
          sizes.resize(values.size());
          for (size_t i = 0; i < values.size(); ++i) {
            auto value = static_cast<double>(values[i]);
            bool keeps_larger = op == ReduceOp::kMax && !is_first;
            sum[i] = keeps_larger ? std::max(sum[i], value) : sum[i] + value;
            sizes[i] = op == ReduceOp::kMax ? std::max(sizes[i], std::abs(value)) : sizes[i] + std::abs(value);
          }
        },
        part);
  }
  scale = 0;
  for (double size : sizes) {
    // A NaN must not widen what is tolerated.
    if (std::isfinite(size)) scale = std::max(scale, size);
  }
  return sum;
}

}  // namespace tpc

/// Tensors in the precision of a run: f32, bf16 and i32 as the runtime holds them, or everything in double.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "compiler/core/bfloat16.h"
#include "compiler/sharding/placement.h"

namespace tpc {

/// Elements in somebody's memory, row-major.
using Elements = std::variant<std::span<float>, std::span<double>, std::span<int32_t>, std::span<BFloat16>>;
/// A copy of them.
using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<int32_t>, std::vector<BFloat16>>;

/// What one rank holds of a tensor.
struct RankPart {
  Region region;
  Elements elements;
};

Values copy_of(const Elements& elements);
Elements view_of(Values& values);
/// Number `i` as a double, which every element is exactly.
double element(const Values& values, int64_t i);
/// Largest magnitude of what is finite.
double magnitude(const Values& values);

/// Copies a rank's part out of the whole tensor of `shape`, of the same kind of elements.
void load_part(const Values& whole, const Shape& shape, const RankPart& part);

/// What was found when elements were compared.
struct Comparison {
  int64_t num_elements = 0;
  int64_t num_differing = 0;
  /// The first that differs: its row-major index in the whole tensor and both values.
  int64_t first = -1;
  double found = 0;
  double wanted = 0;
  /// Largest difference; infinite when a NaN stands against a number.
  double largest = 0;
};

/// Compares a rank's part with the whole tensor of `shape`. Elements differ when they are neither the same (a NaN is
/// the same as a NaN) nor within `tolerance`.
Comparison compare_part(const RankPart& part, const Values& whole, const Shape& shape, double tolerance);

/// The first element whose bits differ, or -1, of two parts of the same region and kind.
int64_t first_unequal(const Values& a, const Values& b);

/// Parts of one region added in order (or their maximum), in double; `scale` becomes the largest sum of magnitudes.
std::vector<double> combine_parts(std::span<const Values> parts, ReduceOp op, double& scale);

}  // namespace tpc

/// Whole tensors in double, and deterministic values for them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/core/shape.h"

namespace tpc::testing {

/// A tensor as one rank without a mesh would hold it: dense, row-major.
struct GlobalTensor {
  TensorType type;
  std::vector<double> data;
  bool operator==(const GlobalTensor&) const = default;
};

/// Values are a pure function of (seed, name, global index), so that every mesh sees the same tensor.
GlobalTensor random_normal_tensor(const TensorType& type, uint64_t seed, std::string_view name, double std = 1);
/// Uniform in (low, high).
GlobalTensor random_uniform_tensor(const TensorType& type, uint64_t seed, std::string_view name, double low,
                                   double high);
/// Whole numbers from low to high - 1: ids and labels.
GlobalTensor random_integer_tensor(const TensorType& type, uint64_t seed, std::string_view name, int64_t low,
                                   int64_t high);
GlobalTensor constant_tensor(const TensorType& type, double value);

/// Largest |a - b|, relative to the largest |b| or 1, whichever is more; infinity when a value is not a number on one
/// side only, or the types differ.
double relative_difference(const GlobalTensor& a, const GlobalTensor& b);

}  // namespace tpc::testing

/// Shapes and tensor types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/core/dtype.h"

namespace tpc {

/// Sizes of the dimensions, outermost first. Rank 0 is a scalar.
using Shape = std::vector<int64_t>;

/// Product of the sizes; 1 for a scalar.
int64_t num_elements(const Shape& shape);
/// Row-major strides in elements.
Shape row_major_strides(const Shape& shape);
/// "[4, 32, 128]".
std::string to_string(const Shape& shape);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

/// "f32[4, 32, 128]".
std::string to_string(const TensorType& type);
/// Bytes of the whole tensor.
int64_t byte_size(const TensorType& type);

}  // namespace tpc

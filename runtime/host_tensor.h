/// A whole tensor in ordinary memory: what goes into a run and what comes out of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/core/shape.h"

namespace tpc {

/// Row-major elements; only the vector of the type's dtype is used.
struct HostTensor {
  TensorType type;
  std::vector<float> f32;
  std::vector<int32_t> i32;

  /// All zeros.
  static HostTensor of(TensorType type) {
    HostTensor tensor{std::move(type), {}, {}};
    size_t size = static_cast<size_t>(num_elements(tensor.type.shape));
    if (tensor.type.dtype == DType::kF32) {
      tensor.f32.resize(size);
    } else {
      tensor.i32.resize(size);
    }
    return tensor;
  }

  void* data() { return type.dtype == DType::kF32 ? static_cast<void*>(f32.data()) : i32.data(); }
  const void* data() const { return type.dtype == DType::kF32 ? static_cast<const void*>(f32.data()) : i32.data(); }
  size_t size() const { return type.dtype == DType::kF32 ? f32.size() : i32.size(); }
};

/// Tensors by name.
using Batch = std::map<std::string, HostTensor>;

}  // namespace tpc

/// A whole tensor in ordinary memory: what goes into a run and what comes out of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/core/bfloat16.h"
#include "compiler/core/shape.h"

namespace tpc {

/// Row-major elements; only the vector of the type's dtype is used.
struct HostTensor {
  TensorType type;
  std::vector<float> f32;
  std::vector<int32_t> i32;
  std::vector<BFloat16> bf16 = {};

  /// All zeros.
  static HostTensor of(TensorType type) {
    HostTensor tensor{std::move(type), {}, {}};
    size_t size = static_cast<size_t>(num_elements(tensor.type.shape));
    switch (tensor.type.dtype) {
      case DType::kF32:
        tensor.f32.resize(size);
        break;
      case DType::kBF16:
        tensor.bf16.resize(size);
        break;
      case DType::kI32:
        tensor.i32.resize(size);
        break;
    }
    return tensor;
  }

  void* data() { return const_cast<void*>(std::as_const(*this).data()); }
  const void* data() const {
    if (type.dtype == DType::kBF16) return bf16.data();
    return type.dtype == DType::kF32 ? static_cast<const void*>(f32.data()) : i32.data();
  }
  size_t size() const { return type.dtype == DType::kBF16 ? bf16.size() : std::max(f32.size(), i32.size()); }
};

/// Tensors by name.
using Batch = std::map<std::string, HostTensor>;

}  // namespace tpc

/// From the types of a step's tensors to an instance of a kernel.
#pragma once

#include <utility>

#include "compiler/core/check.h"
#include "compiler/lowering/local_step.h"
#include "runtime/cuda/gpu.h"

namespace tpc::cuda {

template <class T>
constexpr DType kDTypeOf = sizeof(T) == 4 ? DType::kF32 : DType::kBF16;

template <class T>
T* data_of(const LocalTensor& tensor) {
  TPC_CHECK(tensor.type.dtype == kDTypeOf<T>, "a kernel wants {}, found {}", to_string(kDTypeOf<T>),
            to_string(tensor.type));
  return static_cast<T*>(tensor.data);
}

/// Returns visit(T{}) for the T of a float type.
template <class Visit>
auto with_float_type(DType dtype, Visit&& visit) {
  TPC_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "a kernel wants f32 or bf16, found {}", to_string(dtype));
  return dtype == DType::kF32 ? visit(float{}) : visit(__nv_bfloat16{});
}

}  // namespace tpc::cuda

/// From the tensors of a normalisation, or of its gradient, to the launches of norm_rows.cuh.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>

#include "compiler/lowering/norm_grid.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/column_sums.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/norm_rows.cuh"

namespace tpc::cuda {

/// T of the data, P of gain and bias. bias, mean and dbias only where it is centred.
template <class T, class P>
struct NormTensors {
  const T* x = nullptr;
  const P* gain = nullptr;
  const P* bias = nullptr;
  T* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
};

template <class T, class P>
struct NormGradTensors {
  const T* dy = nullptr;
  const T* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const P* gain = nullptr;
  T* dx = nullptr;
  float* dgain = nullptr;
  float* dbias = nullptr;
};

/// Returns visit(T{}, P{}): parameters are f32, or bf16 with bf16 data.
template <class Visit>
std::unique_ptr<Kernel> with_norm_types(const LocalTensor& data, const LocalTensor& parameter, const Visit& visit) {
  return with_float_type(data.type.dtype, [&](auto element) {
    if (parameter.type.dtype == DType::kF32) return visit(element, float{});
    return visit(element, element);
  });
}

/// The alignment of pointers that may be null.
inline NormShape norm_shape(const Region& region, int64_t pack_size, std::initializer_list<const void*> tensors) {
  const int64_t length = region.dims.back().size();
  const bool aligned = std::ranges::all_of(tensors, is_pack_aligned);
  return {region.num_elements() / length, length, aligned && length % pack_size == 0};
}

inline unsigned norm_block_threads(int64_t length, size_t element_bytes) {
  return gpu::block_threads(static_cast<unsigned>(norm_threads(length, static_cast<int64_t>(element_bytes))));
}

template <bool kCentred, class T, class P>
std::unique_ptr<Kernel> make_norm(DeviceQueue& queue, const Region& region, const NormTensors<T, P>& tensors,
                                  float eps) {
  const NormShape shape = norm_shape(region, kPackSize<T>, {tensors.x, tensors.gain, tensors.bias, tensors.y});
  const LaunchShape grid = {.blocks = shape.rows, .threads = norm_block_threads(shape.length, sizeof(T))};
  return make_kernel([=, &queue] {
    launch(kCentred ? "layer_norm" : "rms_norm", normalize_rows<kCentred, T, P>, grid, queue, shape, eps, tensors.x,
           tensors.gain, tensors.bias, tensors.y, tensors.mean, tensors.rstd);
  });
}

template <bool kCentred, class T, class P>
std::unique_ptr<Kernel> make_norm_grad(DeviceQueue& queue, const Region& region, const NormGradTensors<T, P>& tensors) {
  constexpr int64_t kMaxSharedBytes = int64_t{96} << 10;
  const NormShape shape = norm_shape(region, kPackSize<T>, {tensors.dy, tensors.x, tensors.gain, tensors.dx});
  LaunchShape grid = {.blocks = norm_grad_blocks(shape.rows, shape.length, sizeof(T)),
                      .threads = norm_block_threads(shape.length, sizeof(T))};
  const int64_t sums = kNormSums<kCentred> * shape.length;
  const int64_t bytes = sums * static_cast<int64_t>(sizeof(float));
  const bool sums_in_shared = bytes <= kMaxSharedBytes;
  if (sums_in_shared) grid.shared_bytes = static_cast<size_t>(bytes);
  const auto kernel = normalize_rows_grad<kCentred, T, P>;
  TPC_CUDA(gpu::allow_shared(kernel, grid.shared_bytes));
  queue.reserve(grid.blocks * bytes);
  return make_kernel([=, &queue] {
    auto* parts = reinterpret_cast<float*>(queue.workspace());
    launch(kCentred ? "layer_norm_grad" : "rms_norm_grad", kernel, grid, queue, shape, sums_in_shared, tensors.dy,
           tensors.x, tensors.mean, tensors.rstd, tensors.gain, tensors.dx, parts);
    launch_sum_columns(queue, whole_columns(1, grid.blocks, sums), parts,
                       SumTarget<float>{tensors.dgain, tensors.dbias, shape.length});
  });
}

}  // namespace tpc::cuda

/// What attention and its gradient decide when they are prepared.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <memory>

#include "runtime/attention_heads.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/attention_tiles.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"

namespace tpc::cuda {

/// Head sizes that kernels are made for; a head of another size is filled up with zeros in shared memory.
template <int N>
struct HeadDim {
  static constexpr int kSize = N;
};

/// Returns visit(HeadDim<N>) for the least N that holds the head.
template <class Visit>
auto with_head_dim(const LocalStep& step, int64_t head_dim, Visit&& visit) {
  if (head_dim <= 64) return visit(HeadDim<64>{});
  if (head_dim <= 128) return visit(HeadDim<128>{});
  if (head_dim <= 256) return visit(HeadDim<256>{});
  throw DeviceError(
      fmt::format("\"{}\": attention on a GPU takes heads of at most 256 elements, found {}", step.name, head_dim));
}

/// Whether every row of a head can be accessed in packs.
template <class T>
bool are_heads_packed(int64_t head_dim, std::initializer_list<const void*> tensors) {
  bool packed = head_dim % kPackSize<T> == 0;
  for (const void* tensor : tensors) packed = packed && is_pack_aligned(tensor);
  return packed;
}

}  // namespace tpc::cuda

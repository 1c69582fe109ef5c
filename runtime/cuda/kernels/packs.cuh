/// Elements in memory as the arithmetic sees them: float, one at a time or packs of up to 16 bytes.
#pragma once

#include <cstdint>

#include "runtime/cuda/gpu.h"

namespace tpc::cuda {

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

/// Rounds to nearest even.
template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    return __float2bfloat16(value);
  }
}

/// N neighbours, read and written by one access: N * sizeof(T) is a power of two of at most 16, and so is the alignment
/// of where they lie.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

/// Elements of a pack of 16 bytes.
template <class T>
constexpr int kPackSize = 16 / static_cast<int>(sizeof(T));

inline bool is_pack_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Rounds and writes N neighbours, by as few accesses as their type needs.
template <int N, class T>
__device__ __forceinline__ void store_floats(T* to, const float (&values)[N]) {
  constexpr int kStored = N < kPackSize<T> ? N : kPackSize<T>;
#pragma unroll
  for (int i = 0; i < N; i += kStored) {
    Pack<T, kStored> pack;
#pragma unroll
    for (int j = 0; j < kStored; ++j) pack.values[j] = from_float<T>(values[i + j]);
    store_pack(to + i, pack);
  }
}

/// A number of the compiler's, for functions that are called with packs of either size.
template <int N>
struct PackOf {
  static constexpr int kSize = N;
};

/// Calls visit(PackOf<N>, i) so that the block's threads together visit [begin, end) once: packs of N where N divides
/// begin and `packed` says that packs are aligned, single elements for the rest.
template <int N, class Visit>
__device__ __forceinline__ void for_each_pack(int64_t begin, int64_t end, bool packed, Visit visit) {
  const int64_t thread = threadIdx.x;
  const int64_t threads = blockDim.x;
  const int64_t packs_end = packed ? end - (end - begin) % N : begin;
  for (int64_t i = begin + thread * N; i < packs_end; i += threads * N) visit(PackOf<N>{}, i);
  for (int64_t i = packs_end + thread; i < end; i += threads) visit(PackOf<1>{}, i);
}

/// The same over a row of `length` elements whose start may be anywhere: single elements up to the first address that
/// a pack can have. Rows of several tensors may be walked at once when all of them lie at the same offset from such an
/// address.
template <class T, class Visit>
__device__ __forceinline__ void for_each_pack_of_row(const T* row, int64_t length, Visit visit) {
  constexpr int64_t kSize = kPackSize<T>;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T)) % kSize;
  const int64_t head = min(length, (kSize - past) % kSize);
  for (int64_t i = threadIdx.x; i < head; i += blockDim.x) visit(PackOf<1>{}, i);
  for_each_pack<kPackSize<T>>(head, length, true, visit);
}

}  // namespace tpc::cuda

/// CUDA's device functions, as far as the kernels use them, for gpu_emulation.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

using std::max;
using std::min;

// Barriers.

inline void __syncthreads() { ::gpu::barrier(false); }
inline int __syncthreads_count(int vote) { return static_cast<int>(::gpu::barrier(vote != 0).ayes); }
inline int __syncthreads_or(int vote) { return ::gpu::barrier(vote != 0).ayes > 0 ? 1 : 0; }
inline int __syncthreads_and(int vote) {
  const ::gpu::BarrierVotes votes = ::gpu::barrier(vote != 0);
  return votes.ayes == votes.threads ? 1 : 0;
}
inline void __syncwarp(unsigned mask = ~0u) { ::gpu::warp_op(::gpu::WarpOp::kSync, mask, {}); }
inline void __threadfence() { ::gpu::fence(); }
inline void __threadfence_block() { ::gpu::fence(); }
[[noreturn]] inline void __trap() { ::gpu::fail("__trap()"); }

// Warps.

inline unsigned __ballot_sync(unsigned mask, int vote) {
  const uint64_t word = vote != 0 ? 1 : 0;
  return static_cast<unsigned>(::gpu::warp_op(::gpu::WarpOp::kBallot, mask, {{word, 0}}).words[0]);
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0 ? 1 : 0; }
inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote == 0 ? 1 : 0) == 0 ? 1 : 0; }

template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return static_cast<unsigned>(::gpu::warp_op(::gpu::WarpOp::kMatch, mask, ::gpu::to_warp_value(value)).words[0]);
}

namespace gpu {

template <class T>
T shuffle(unsigned mask, T value, unsigned source) {
  return from_warp_value<T>(warp_op(WarpOp::kShuffle, mask, to_warp_value(value), source));
}

template <class T, class Function>
T reduce(unsigned mask, T value, Function /*function*/) {
  constexpr Combine combine = [](WarpValue a, WarpValue b) {
    return to_warp_value(static_cast<T>(Function{}(from_warp_value<T>(a), from_warp_value<T>(b))));
  };
  return from_warp_value<T>(warp_op(WarpOp::kReduce, mask, to_warp_value(value), 0, combine));
}

}  // namespace gpu

// A shuffle that would read beyond its segment of `width` lanes gives the lane's own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned in_segment = static_cast<unsigned>(width - 1);
  return ::gpu::shuffle(mask, value,
                        (::gpu::current_thread->lane & ~in_segment) + (static_cast<unsigned>(source) & in_segment));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const unsigned lane = ::gpu::current_thread->lane;
  const unsigned source = lane ^ static_cast<unsigned>(lane_mask);
  const unsigned segment = static_cast<unsigned>(width);
  return ::gpu::shuffle(mask, value, source / segment <= lane / segment ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = ::gpu::current_thread->lane;
  const unsigned segment = static_cast<unsigned>(width);
  return ::gpu::shuffle(mask, value, lane % segment + delta < segment ? lane + delta : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = ::gpu::current_thread->lane;
  const unsigned segment = static_cast<unsigned>(width);
  return ::gpu::shuffle(mask, value, lane % segment >= delta ? lane - delta : lane);
}

template <std::integral T>
T __reduce_add_sync(unsigned mask, T value) {
  return ::gpu::reduce(mask, value, [](T a, T b) { return a + b; });
}
template <std::integral T>
T __reduce_max_sync(unsigned mask, T value) {
  return ::gpu::reduce(mask, value, [](T a, T b) { return a < b ? b : a; });
}
template <std::integral T>
T __reduce_min_sync(unsigned mask, T value) {
  return ::gpu::reduce(mask, value, [](T a, T b) { return b < a ? b : a; });
}

// Atomics order nothing but themselves. Each returns the old value.

namespace gpu {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T, class Function>
T atomic_update(T* place, Function next) {
  static_assert(sizeof(T) == sizeof(BitsOf<T>));
  auto* bits = reinterpret_cast<BitsOf<T>*>(place);
  BitsOf<T> old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bits, &old, std::bit_cast<BitsOf<T>>(next(std::bit_cast<T>(old))), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return std::bit_cast<T>(old);
}

}  // namespace gpu

template <class T>
T atomicAdd(T* place, std::type_identity_t<T> value) {
  return ::gpu::atomic_update(place, [value](T old) { return static_cast<T>(old + value); });
}
template <std::integral T>
T atomicMax(T* place, std::type_identity_t<T> value) {
  return ::gpu::atomic_update(place, [value](T old) { return old < value ? value : old; });
}
template <std::integral T>
T atomicMin(T* place, std::type_identity_t<T> value) {
  return ::gpu::atomic_update(place, [value](T old) { return value < old ? value : old; });
}
template <std::integral T>
T atomicOr(T* place, std::type_identity_t<T> value) {
  return ::gpu::atomic_update(place, [value](T old) { return static_cast<T>(old | value); });
}
template <class T>
T atomicExch(T* place, std::type_identity_t<T> value) {
  return ::gpu::atomic_update(place, [value](T) { return value; });
}
template <std::integral T>
T atomicCAS(T* place, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return ::gpu::atomic_update(place, [=](T old) { return old == expected ? value : old; });
}

// Loads and stores with a hint.

template <class T>
T __ldg(const T* place) {
  return *place;
}
template <class T>
T __ldcg(const T* place) {
  return *place;
}
template <class T>
T __ldcs(const T* place) {
  return *place;
}
template <class T>
void __stcg(T* place, std::type_identity_t<T> value) {
  *place = value;
}
template <class T>
void __stcs(T* place, std::type_identity_t<T> value) {
  *place = value;
}

// Arithmetic. The fast forms are exact here: results agree with the device's to a tolerance only.

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = static_cast<float>(std::sin(M_PI * static_cast<double>(x)));
  *cosine = static_cast<float>(std::cos(M_PI * static_cast<double>(x)));
}
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }

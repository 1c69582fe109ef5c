/// Vectors of floats as wide as the instruction set allows, and loops over arrays of any length with them.
/// Include in runtime/cpu only: the width follows the flags that a source is compiled with.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace tpc {

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif
/// Floats in a vector.
constexpr int64_t kLanes = kVectorBytes / 4;

using Vector = float __attribute__((vector_size(kVectorBytes)));
using IntVector = int32_t __attribute__((vector_size(kVectorBytes)));

/// A vector anywhere in an array of floats. (A memcpy means the same; g++ 12 takes it over the stack.)
using VectorInMemory = float __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const VectorInMemory*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<VectorInMemory*>(to) = value; }

/// The first `count` < kLanes floats; the other lanes are 0.
inline Vector load_first(const float* from, int64_t count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), from);
#else
  Vector value = {};
  std::memcpy(&value, from, static_cast<size_t>(count) * sizeof(float));
  return value;
#endif
}

/// Writes the first `count` < kLanes floats only.
inline void store_first(float* to, Vector value, int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1U), value);
#else
  std::memcpy(to, &value, static_cast<size_t>(count) * sizeof(float));
#endif
}

inline Vector broadcast(float value) { return value - Vector{}; }

/// Lanes of 64 bits, in which 32-bit numbers are multiplied.
using WideVector = uint64_t __attribute__((vector_size(kVectorBytes)));

/// The products of the low halves of the lanes.
inline WideVector multiply_low_halves(WideVector a, WideVector b) {
#if defined(__AVX512F__)
  return reinterpret_cast<WideVector>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<WideVector>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return (a & 0xffffffffU) * (b & 0xffffffffU);
#endif
}

/// a * b + c, in one rounding where the instruction set can.
inline Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX__) && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

inline Vector square_root(Vector x) {
#if defined(__AVX512F__)
  // The plain form trips a false -Wmaybe-uninitialized of g++ 12.
  return _mm512_maskz_sqrt_ps(0xffff, x);
#elif defined(__AVX__)
  return _mm256_sqrt_ps(x);
#else
  for (int64_t i = 0; i < kLanes; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}

/// The larger and the smaller lane by lane; b where either is not a number.
inline Vector maximum(Vector a, Vector b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);
#else
  return a > b ? a : b;
#endif
}
inline Vector minimum(Vector a, Vector b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, a, b);
#else
  return a < b ? a : b;
#endif
}

inline IntVector bits_of(Vector x) { return std::bit_cast<IntVector>(x); }
inline Vector from_bits(IntVector x) { return std::bit_cast<Vector>(x); }
inline Vector magnitude(Vector x) { return from_bits(bits_of(x) & 0x7fffffff); }

/// Lane i is lane (i + kShift) % kLanes of x.
template <int64_t kShift, int64_t... kIndices>
Vector rotated(Vector x, std::integer_sequence<int64_t, kIndices...>) {
  return __builtin_shufflevector(x, x, ((kIndices + kShift) % kLanes)...);
}

/// All lanes combined, by halves; `combine` is commutative.
template <int64_t kHalf = kLanes / 2, class Combine>
float combine_lanes(Vector x, const Combine& combine) {
  x = combine(x, rotated<kHalf>(x, std::make_integer_sequence<int64_t, kLanes>()));
  if constexpr (kHalf == 1) {
    return x[0];
  } else {
    return combine_lanes<kHalf / 2>(x, combine);
  }
}

inline float lane_sum(Vector x) {
  return combine_lanes(x, [](Vector a, Vector b) { return a + b; });
}
inline float lane_max(Vector x) { return combine_lanes(x, maximum); }

/// out[i] = function(in[i]...) for i < count. `out` may be one of the inputs.
template <class Function, class... Inputs>
inline void map_vectors(int64_t count, float* out, const Function& function, const Inputs*... in) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, function(load(in + i)...));
  if (i < count) store_first(out + i, function(load_first(in + i, count - i)...), count - i);
}

/// Sum of function(in[i]...) for i < count, in four partial sums a lane.
template <class Function, class... Inputs>
inline float sum_vectors(int64_t count, const Function& function, const Inputs*... in) {
  Vector sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int64_t j = 0; j < 4; ++j) sums[j] += function(load(in + i + j * kLanes)...);
  }
  for (; i + kLanes <= count; i += kLanes) sums[0] += function(load(in + i)...);
  if (i < count) {
    float rest[kLanes];
    store(rest, function(load_first(in + i, count - i)...));
    sums[1] += load_first(rest, count - i);
  }
  return lane_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// Largest of count >= 1 floats.
inline float max_of(int64_t count, const float* in) {
  if (count < kLanes) {
    float largest = in[0];
    for (int64_t i = 1; i < count; ++i) largest = in[i] > largest ? in[i] : largest;
    return largest;
  }
  // The last vector may overlap the one before it: a maximum does not mind.
  Vector largest = load(in + count - kLanes);
  for (int64_t i = 0; i + kLanes <= count; i += kLanes) largest = maximum(largest, load(in + i));
  return lane_max(largest);
}

}  // namespace tpc

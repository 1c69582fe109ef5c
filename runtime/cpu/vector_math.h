/// Elementary functions of vectors, accurate to a few units in the last place of a float.
#pragma once

#include "runtime/cpu/simd.h"

namespace tpc {

/// e^x: 0 below -87.3 (results would be subnormal), infinity above 88.7.
inline Vector vector_exp(Vector x) {
  // x = n ln 2 + r with |r| <= ln(2)/2; adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
  constexpr float kRound = 12582912.0f;
  constexpr float kLowest = -87.3365f;
  const Vector capped = minimum(broadcast(89.0f), x);
  const Vector shifted = multiply_add(capped, broadcast(1.44269504f), broadcast(kRound));
  const Vector n = shifted - kRound;
  Vector r = multiply_add(n, broadcast(-0.693359375f), capped);
  r = multiply_add(n, broadcast(2.12194440e-4f), r);
  // (e^r - 1 - r) / r^2, minimax on the interval (relative error 1.3e-7, 8e-9 of e^r).
  Vector p = broadcast(0.00139017072149f);
  p = multiply_add(p, r, broadcast(0.00836313661551f));
  p = multiply_add(p, r, broadcast(0.0416668482653f));
  p = multiply_add(p, r, broadcast(0.166665773535f));
  p = multiply_add(p, r, broadcast(0.499999995605f));
  const Vector power = multiply_add(multiply_add(p, r, broadcast(1.0f)), r, broadcast(1.0f));
#if defined(__AVX512F__)
  const __mmask16 is_normal = _mm512_cmp_ps_mask(x, broadcast(kLowest), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(is_normal, power, n);
#else
  // 2^n as 2^(n/2) * 2^(n - n/2), since n = 128 alone does not fit the exponent.
  const IntVector exponent = bits_of(shifted) - std::bit_cast<int32_t>(kRound);
  const IntVector half = exponent >> 1;
  const Vector result = power * from_bits((half + 127) << 23) * from_bits((exponent - half + 127) << 23);
  return x < kLowest ? Vector{} : result;
#endif
}

/// out[i] = e^(in[i] - shift) for i < count; returns their sum. `out` may be `in`.
inline float exp_and_sum(int64_t count, const float* in, float shift, float* out) {
  Vector sums[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const Vector first = vector_exp(load(in + i) - shift);
    const Vector second = vector_exp(load(in + i + kLanes) - shift);
    store(out + i, first);
    store(out + i + kLanes, second);
    sums[0] += first;
    sums[1] += second;
  }
  for (; i < count; i += kLanes) {
    const int64_t rest = count - i;
    if (rest >= kLanes) {
      const Vector value = vector_exp(load(in + i) - shift);
      store(out + i, value);
      sums[0] += value;
    } else {
      store_first(out + i, vector_exp(load_first(in + i, rest) - shift), rest);
      sums[1] += load_first(out + i, rest);
    }
  }
  return lane_sum(sums[0] + sums[1]);
}

inline Vector vector_sigmoid(Vector x) { return 1.0f / (1.0f + vector_exp(-x)); }

inline Vector vector_tanh(Vector x) {
  const Vector a = magnitude(x);
  // tanh(x)/x in x^2 for |x| < 0.7 (relative error 1.4e-8); elsewhere 1 - 2/(e^2|x| + 1) loses nothing.
  const Vector square = x * x;
  Vector p = broadcast(-0.00508829780078f);
  p = multiply_add(p, square, broadcast(0.0200244096172f));
  p = multiply_add(p, square, broadcast(-0.0535259895447f));
  p = multiply_add(p, square, broadcast(0.133284141165f));
  p = multiply_add(p, square, broadcast(-0.33333130217f));
  p = multiply_add(p, square, broadcast(0.999999986171f));
  const Vector large = 1.0f - 2.0f / (vector_exp(2.0f * a) + 1.0f);
  const Vector signed_large = from_bits(bits_of(large) | (bits_of(x) & INT32_MIN));
  return a < 0.7f ? p * x : signed_large;
}

/// The standard normal distribution: its function Phi(x) = (1 + erf(x / sqrt 2)) / 2, also right in relative terms in
/// the left tail, and its density.
struct NormalDistribution {
  Vector cumulative;
  Vector density;
};

inline NormalDistribution vector_normal(Vector x) {
  // erfc(z) e^(z^2) = t (c0 + c1 t + ...) with t = 1/(1 + 0.3275911 z) (the form of Abramowitz and Stegun 7.1.26, with
  // eight minimax terms for z < 8: relative error 5.7e-8), z = |x| / sqrt 2.
  const Vector a = magnitude(x);
  const Vector t = 1.0f / multiply_add(a, broadcast(0.231641888f), broadcast(1.0f));
  Vector p = broadcast(-0.144521705913f);
  p = multiply_add(p, t, broadcast(0.511235286693f));
  p = multiply_add(p, t, broadcast(-0.431882065328f));
  p = multiply_add(p, t, broadcast(0.478253608221f));
  p = multiply_add(p, t, broadcast(0.0114252075749f));
  p = multiply_add(p, t, broadcast(0.210445362666f));
  p = multiply_add(p, t, broadcast(0.179933634004f));
  p = multiply_add(p, t, broadcast(0.185110615283f));
  const Vector gauss = vector_exp(-0.5f * x * x);
  const Vector tail = 0.5f * gauss * p * t;
  return {x > 0.0f ? 1.0f - tail : tail, 0.39894228f * gauss};
}

}  // namespace tpc

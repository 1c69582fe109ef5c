/// The numbers of bf16: the upper half of a float's bits.
#pragma once

#include <bit>
#include <cstdint>

namespace tpc {

/// An element of a bf16 tensor, as it lies in memory.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  /// The nearest, of two the even one; too large is infinite, and a NaN stays one.
  explicit BFloat16(float value) {
    const auto all = std::bit_cast<uint32_t>(value);
    const uint32_t nearest = (all + 0x7fffU + ((all >> 16) & 1U)) >> 16;
    const uint32_t nan = (all >> 16) | 0x40U;
    bits = static_cast<uint16_t>((all & 0x7fffffffU) > 0x7f800000U ? nan : nearest);
  }

  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
  bool operator==(const BFloat16&) const = default;
};

static_assert(sizeof(BFloat16) == 2);

/// Twice the largest relative error of one rounding to bf16: numbers have 8 bits.
inline constexpr double kBFloat16Epsilon = 1.0 / 128;

}  // namespace tpc

/// Arithmetic modulo the prime 2^61 - 1, and numbers made of hashes. Sums and products are exact, so that neither their
/// order nor the ranks that make them show in the result.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpc::verify {

/// In [0, kPrime).
using Element = uint64_t;
inline constexpr Element kPrime = (Element{1} << 61) - 1;

__extension__ using Wide = unsigned __int128;

/// The element that is `x` modulo kPrime, for any x: 2^61 is 1.
inline Element reduced(Wide x) {
  Wide folded = (x & kPrime) + (x >> 61);
  auto once = static_cast<uint64_t>(folded & kPrime) + static_cast<uint64_t>(folded >> 61);
  return once >= kPrime ? once - kPrime : once;
}

inline Element add(Element a, Element b) {
  Element sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}
inline Element subtract(Element a, Element b) { return a >= b ? a - b : a + kPrime - b; }
inline Element multiply(Element a, Element b) { return reduced(static_cast<Wide>(a) * b); }

/// a^(p - 2): 1 / a, and 0 for 0.
Element inverse(Element a);

/// A sum of products, reduced now and then only: 2^6 products of 122 bits fit.
class ProductSum {
 public:
  void add(Element a, Element b) {
    sum_ += static_cast<Wide>(a) * b;
    if (++count_ % 32 == 0) sum_ = reduced(sum_);
  }
  Element value() const { return reduced(sum_); }

 private:
  Wide sum_ = 0;
  uint32_t count_ = 0;
};

/// Integers of a model (ids, labels) as elements; negative ones are counted down from kPrime.
inline Element of_integer(int64_t value) {
  return value < 0 ? kPrime - static_cast<Element>(-value) : static_cast<Element>(value);
}
inline int64_t as_integer(Element element) {
  return element > kPrime / 2 ? -static_cast<int64_t>(kPrime - element) : static_cast<int64_t>(element);
}

/// Spreads the bits of x (the finaliser of splitmix64; Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t x);
uint64_t hash_of(std::string_view text, uint64_t seed = 0);
/// Any element, all but equally often.
Element element_of_hash(uint64_t hash);
/// Another bit, another element: attributes enter formulas by this.
Element element_of(double value);
Element element_of(std::string_view text);

}  // namespace tpc::verify

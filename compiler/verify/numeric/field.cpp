#include "compiler/verify/numeric/field.h"

#include <bit>

namespace tpc::verify {

Element inverse(Element a) {
  Element result = 1;
  Element power = a;
  for (Element exponent = kPrime - 2; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = multiply(result, power);
    power = multiply(power, power);
  }
  return result;
}

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

uint64_t hash_of(std::string_view text, uint64_t seed) {
  uint64_t hash = mixed(seed ^ text.size());
  for (char letter : text) hash = mixed(hash ^ static_cast<unsigned char>(letter));
  return hash;
}

Element element_of_hash(uint64_t hash) { return reduced(hash); }

Element element_of(double value) { return element_of_hash(mixed(std::bit_cast<uint64_t>(value))); }

Element element_of(std::string_view text) { return element_of_hash(hash_of(text)); }

}  // namespace tpc::verify

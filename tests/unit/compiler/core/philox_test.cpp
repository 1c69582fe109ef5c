#include "compiler/core/philox.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>

namespace tpc {
namespace {

// Known answers published with Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST_CASE("philox: known answers") {
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t kOnes = 0xffffffff;
  CHECK(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: a word is a lane of the block that its index names") {
  PhiloxKey key{7, 9};
  uint64_t stream = (uint64_t{3} << 32) | 5;
  uint64_t index = (uint64_t{1} << 34) + 6;
  PhiloxCounter block = philox4x32_10({1, 1, 5, 3}, key);
  CHECK(random_word(key, stream, index) == block[2]);
  CHECK(random_word(key, stream, index + 1) == block[3]);
}

TEST_CASE("philox: keys differ by seed and by name") {
  std::set<PhiloxKey> keys;
  for (uint64_t seed : {0, 1, 2}) {
    for (std::string name : {"", "a", "b", "ab", "ba", "block0.fc1.weight", "block1.fc1.weight"}) {
      keys.insert(philox_key(seed, name));
    }
  }
  CHECK(keys.size() == 21);
  CHECK(philox_key(1, "a") == philox_key(1, "a"));
}

TEST_CASE("philox: uniform numbers lie between 0 and 1 and reach neither") {
  CHECK(uniform_from_word(0) > 0.0);
  CHECK(uniform_from_word(0xffffffff) < 1.0);
  CHECK(uniform_from_word(0x80000000) == doctest::Approx(0.5));
}

// Bounds are five standard errors of each estimate.
TEST_CASE("philox: normal numbers have the moments of a standard normal") {
  constexpr int kCount = 200000;
  PhiloxKey key = philox_key(42, "weights");
  double sums[5] = {};
  double neighbours = 0;
  double previous = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    double x = random_normal(key, 0, i);
    CHECK_MESSAGE(std::isfinite(x), "element ", i);
    double power = 1;
    for (double& sum : sums) {
      sum += power;
      power *= x;
    }
    neighbours += x * previous;
    previous = x;
  }
  double error = 5.0 / std::sqrt(double{kCount});
  CHECK(std::abs(sums[1] / kCount) < error);
  CHECK(std::abs(sums[2] / kCount - 1) < error * std::sqrt(2.0));
  CHECK(std::abs(sums[3] / kCount) < error * std::sqrt(15.0));
  CHECK(std::abs(sums[4] / kCount - 3) < error * std::sqrt(96.0));
  CHECK(std::abs(neighbours / kCount) < error);
}

TEST_CASE("philox: normal numbers come in pairs of one radius") {
  PhiloxKey key = philox_key(1, "x");
  for (uint64_t pair = 0; pair < 8; ++pair) {
    double u = uniform_from_word(random_word(key, 2, 2 * pair));
    double a = random_normal(key, 2, 2 * pair);
    double b = random_normal(key, 2, 2 * pair + 1);
    CHECK(a * a + b * b == doctest::Approx(-2.0 * std::log(u)));
  }
}

}  // namespace
}  // namespace tpc

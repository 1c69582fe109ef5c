#include "compiler/core/philox.h"

#include <cmath>
#include <numbers>

namespace tpc {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

PhiloxCounter block_of(PhiloxKey key, uint64_t stream, uint64_t index) {
  uint64_t block = index / 4;
  return philox4x32_10({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream),
                        static_cast<uint32_t>(stream >> 32)},
                       key);
}

}  // namespace

PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kRounds; ++round) {
    uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

PhiloxKey philox_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ (seed * 0x9E3779B97F4A7C15ULL);
  for (char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
}

uint32_t random_word(PhiloxKey key, uint64_t stream, uint64_t index) { return block_of(key, stream, index)[index % 4]; }

double uniform_from_word(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

double random_normal(PhiloxKey key, uint64_t stream, uint64_t index) {
  PhiloxCounter block = block_of(key, stream, index);
  uint64_t lane = index % 4;
  uint64_t pair = lane / 2 * 2;
  double radius = std::sqrt(-2.0 * std::log(uniform_from_word(block[pair])));
  double angle = 2.0 * std::numbers::pi * uniform_from_word(block[pair + 1]);
  return radius * (lane % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace tpc

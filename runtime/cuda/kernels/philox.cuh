/// compiler/core/philox.h on the device, bit for bit.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/core/check.h"
#include "runtime/cuda/gpu.h"

namespace tpc::cuda {

struct DevicePhiloxKey {
  uint32_t words[2];
};

struct PhiloxBlock {
  uint32_t a, b, c, d;

  // An array would lie in memory when it is indexed.
  __device__ __forceinline__ uint32_t operator[](uint64_t i) const {
    const uint32_t low = i == 0 ? a : b;
    const uint32_t high = i == 2 ? c : d;
    return i < 2 ? low : high;
  }
};

/// The name of a stream of random numbers, as an argument of a kernel.
struct StreamName {
  static constexpr int kMaxLength = 1024;
  int length;
  char text[kMaxLength];

  explicit StreamName(const std::string& name) : length(static_cast<int>(name.size())), text{} {
    TPC_CHECK(name.size() <= kMaxLength, "the name of a stream has {} characters", name.size());
    name.copy(text, name.size());
  }
};

/// philox_key().
__device__ __forceinline__ DevicePhiloxKey philox_key_of(uint64_t seed, const StreamName& name) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ (seed * 0x9E3779B97F4A7C15ULL);
  for (int i = 0; i < name.length; ++i) {
    hash ^= static_cast<unsigned char>(name.text[i]);
    hash *= 0x100000001b3ULL;
  }
  return {{static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)}};
}

/// The words of elements 4 * block to 4 * block + 3 of a stream: random_word() of each.
__device__ __forceinline__ PhiloxBlock philox_block(DevicePhiloxKey key, uint64_t stream, uint64_t block) {
  uint32_t a = static_cast<uint32_t>(block);
  uint32_t b = static_cast<uint32_t>(block >> 32);
  uint32_t c = static_cast<uint32_t>(stream);
  uint32_t d = static_cast<uint32_t>(stream >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * a;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c;
    a = static_cast<uint32_t>(product1 >> 32) ^ b ^ key.words[0];
    b = static_cast<uint32_t>(product1);
    c = static_cast<uint32_t>(product0 >> 32) ^ d ^ key.words[1];
    d = static_cast<uint32_t>(product0);
    key.words[0] += 0x9E3779B9;
    key.words[1] += 0xBB67AE85;
  }
  return {a, b, c, d};
}

}  // namespace tpc::cuda

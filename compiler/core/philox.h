/// Philox4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
/// A number is a pure function of (key, counter), so weights and dropout masks do not depend on who computes them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tpc {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Ten rounds of Philox4x32.
PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key);

/// The stream of a named thing: FNV-1a of the name, mixed with the seed. The same for any mesh.
PhiloxKey philox_key(uint64_t seed, std::string_view name);

/// The random word of global element `index` in `stream` (a step number, or 0): lane index % 4 of the block
/// counter = (low and high word of index / 4, low and high word of stream).
uint32_t random_word(PhiloxKey key, uint64_t stream, uint64_t index);

/// (word + 0.5) / 2^32, in (0, 1).
double uniform_from_word(uint32_t word);

/// Standard normal of global element `index`: Box-Muller on the lane pair of the element's block. With
/// u = uniform(lane 0 or 2) and w = uniform(lane 1 or 3), even lanes are sqrt(-2 ln u) cos(2 pi w), odd lanes the sine.
double random_normal(PhiloxKey key, uint64_t stream, uint64_t index);

}  // namespace tpc

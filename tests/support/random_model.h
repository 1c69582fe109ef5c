/// Random model files: every layer kind, odd sizes, legal by construction.
#pragma once

#include <cstdint>
#include <string>

namespace tpc::testing {

/// The same text for the same seed. Small enough that a training step in the reference executor takes milliseconds.
std::string random_model(uint64_t seed);

}  // namespace tpc::testing

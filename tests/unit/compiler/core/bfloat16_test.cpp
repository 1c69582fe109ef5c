#include "compiler/core/bfloat16.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tpc {

TEST_CASE("every bf16 is a float, and that float the same bf16") {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    BFloat16 value;
    value.bits = static_cast<uint16_t>(bits);
    auto wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      CHECK(std::isnan(static_cast<float>(BFloat16(wide))));
    } else {
      CHECK(BFloat16(wide) == value);
    }
  }
}

TEST_CASE("a float becomes the nearest bf16, of two the even one") {
  auto rounded = [](float value) { return static_cast<float>(BFloat16(value)); };
  // Neighbours above 1 are 1/128 apart.
  CHECK(rounded(1.0F + 0x1p-8F) == 1.0F);
  CHECK(rounded(1.0F + 0x1.8p-7F) == 1.0F + 0x1p-6F);
  CHECK(rounded(1.0F + 0x1p-8F + 0x1p-20F) == 1.0F + 0x1p-7F);
  CHECK(rounded(-1.0F - 0x1p-8F) == -1.0F);
  CHECK(rounded(1e-40F) > 0);
  CHECK(rounded(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
  CHECK(rounded(-std::numeric_limits<float>::infinity()) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(rounded(std::numeric_limits<float>::signaling_NaN())));
}

}  // namespace tpc

/// How attention and its gradient go through the queries on a cpu.
#pragma once

#include <cstdint>

#include "runtime/cpu/panel_product.h"

namespace tpc {

/// Query rows that are worked on together: their scores against every key are held at once.
constexpr int64_t kQueryBlock = 32;

}  // namespace tpc

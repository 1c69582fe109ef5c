/// The table of passes.
#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace tpc {

/// In pipeline order.
std::span<const PassInfo> all_passes();
/// nullptr when no pass has that name.
const PassInfo* find_pass(std::string_view name);

}  // namespace tpc

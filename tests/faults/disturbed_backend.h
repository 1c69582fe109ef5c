/// A cpu backend that does something else as well, on some ranks.
#pragma once

#include <functional>
#include <memory>

#include "runtime/backend.h"

namespace tpc::testing {

/// Calls `before_prepare` before each step is prepared and `before_run` before each kernel runs; either may be empty,
/// and may throw or wait.
std::unique_ptr<Backend> disturbed_backend(std::function<void()> before_prepare, std::function<void()> before_run);

}  // namespace tpc::testing

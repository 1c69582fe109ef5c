/// What is wrong with a plan, and where.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace tpc::verify {

/// The proofs throw the first one that they meet, and hand it back to those who ask.
struct Flaw {
  /// Index into Plan::steps; -1: of no step.
  int step = -1;
  std::string message;
  /// Index into Plan::tensors of a flaw of no step; -1: of the plan as a whole.
  int tensor = -1;
};

template <class... Args>
[[noreturn]] void throw_flaw(int step, fmt::format_string<Args...> format, Args&&... args) {
  throw Flaw{step, fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
[[noreturn]] void throw_tensor_flaw(int tensor, fmt::format_string<Args...> format, Args&&... args) {
  throw Flaw{-1, fmt::format(format, std::forward<Args>(args)...), tensor};
}

}  // namespace tpc::verify

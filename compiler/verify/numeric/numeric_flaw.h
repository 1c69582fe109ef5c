/// Where a plan, executed in exact numbers, departs from its model.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace tpc::verify {

/// Thrown where it is found, handed back by those who ask (numeric_proof.h).
struct NumericFlaw {
  /// Index into Plan::steps; -1: of the plan as a whole.
  int step = -1;
  std::string message;
};

template <class... Args>
[[noreturn]] void throw_flaw(int step, fmt::format_string<Args...> format, Args&&... args) {
  throw NumericFlaw{step, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace tpc::verify

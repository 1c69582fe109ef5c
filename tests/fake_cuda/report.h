/// How a misuse is told: one sentence on standard error.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace fake_cuda {

/// Prints "fake CUDA: <sentence>".
void say(const std::string& sentence);
/// Says it and aborts: what a GPU would answer with wrong numbers, with silence or not at all.
[[noreturn]] void die_with(const std::string& sentence);

template <class... Args>
[[noreturn]] void die(fmt::format_string<Args...> format, Args&&... args) {
  die_with(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fake_cuda

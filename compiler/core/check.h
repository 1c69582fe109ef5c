/// Checks of our own invariants: a failure is a bug of tpc (InternalError, exit code 70), never a user's mistake.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace tpc {

/// A bug of ours. Carries file:line, the condition and the values that broke it.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message) : std::logic_error(message) {}
};

/// The device, a peer rank or the operating system failed us (exit code 69): names the rank, step and node where known.
class DeviceError : public std::runtime_error {
 public:
  explicit DeviceError(const std::string& message) : std::runtime_error(message) {}
};

[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition, const std::string& message);

}  // namespace tpc

/// TPC_CHECK(cond, "format {}", args...): throws InternalError when cond is false; the message is built only then.
#define TPC_CHECK(condition, ...)                                                                            \
  do {                                                                                                       \
    if (!(condition)) ::tpc::throw_internal_error(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)

#define TPC_UNREACHABLE(...) ::tpc::throw_internal_error(__FILE__, __LINE__, "unreachable", fmt::format(__VA_ARGS__))

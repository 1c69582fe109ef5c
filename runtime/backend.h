/// A device: turns local steps into kernels that run without allocating, and gives them memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/local_step.h"

namespace tpc {

/// A prepared step of one rank. run() allocates nothing and may throw DeviceError.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const StepContext& context) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Prepares one step; everything that a kernel needs (primitives, scratch) is made here, once. Never returns nullptr:
  /// every op that can stand in a plan has a kernel, else InternalError.
  virtual std::unique_ptr<Kernel> prepare(const LocalStep& step) = 0;
};

}  // namespace tpc

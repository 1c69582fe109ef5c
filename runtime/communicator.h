/// Collectives between ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/core/check.h"
#include "compiler/lowering/collective_step.h"

namespace tpc {

/// Thrown by ranks that wait for a peer when the run has ended because of a failure elsewhere; that failure is the one
/// to report.
class RunEnded : public DeviceError {
 public:
  RunEnded() : DeviceError("the run was ended by another rank") {}
};

/// A prepared collective of one rank. run() allocates nothing and returns the bytes that this rank received from its
/// peers (the quantity of received_elements in compiler/sharding/collective.h, times the element size), counted where
/// the data move. Throws DeviceError when a peer is missing or has failed.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int64_t run() = 0;
};

/// The end of one rank.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Prepares one collective; copy lists, scratch and groups are made here, once. All members of a group prepare the
  /// same collectives in the same order, and run each as often as the others. Never returns nullptr. The collective
  /// does not outlive the communicator; the buffers outlive every member's run, for peers may read them.
  virtual std::unique_ptr<Collective> prepare(const CollectiveStep& step) = 0;
  /// Before the first prepare(): the memory that inputs and outputs lie in.
  virtual void use_memory(void* data, int64_t bytes) = 0;
  /// Before that memory is released.
  virtual void forget_memory() = 0;
  /// After a failure: ends what has been issued and would wait for ranks that do not come. Nothing may be issued
  /// afterwards, and nothing on the device be released before.
  virtual void abort() = 0;
};

}  // namespace tpc

/// A device: memory for a rank, and local steps turned into kernels that run without allocating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/lowering/local_step.h"
#include "compiler/lowering/rank_steps.h"
#include "compiler/lowering/step_order.h"

namespace tpc {

/// A prepared step of one rank. run() allocates nothing and may throw DeviceError. On a device with queues it issues
/// the work and waits for nothing.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const StepContext& context) = 0;
};

/// Memory of a device, 64-byte aligned and zeroed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// An address of the device.
  virtual std::byte* data() const = 0;
};

/// Memory of a device, in bytes.
struct MemoryUse {
  int64_t held = 0;  ///< by a rank's backend: arena, working memory, tables of its kernels
  int64_t used = 0;  ///< that the device says is taken, by whomever, since the rank and its communicator were opened
};

/// A point in one queue of a device that the other queue waits for.
class Mark {
 public:
  virtual ~Mark() = default;
  /// What was issued to its queue so far lies before the mark.
  virtual void set() = 0;
  /// What is issued to the other queue from now on runs when the work before the mark is done.
  virtual void await() = 0;
};

/// A part of a training step that is issued as a whole.
class Segment {
 public:
  virtual ~Segment() = default;
  /// 0, 1, ...: the same segment in every training step.
  virtual size_t id() const = 0;
  /// Issues every step of the segment. The device does them after all of the segment before.
  virtual void issue() = 0;
};

/// What prepare() and issue() do not say is done in the order of the calls. One thread at a time uses a backend.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  /// Throws DeviceError when there is not enough. With `host_visible` the host may read and write it after wait().
  virtual std::unique_ptr<DeviceMemory> allocate(int64_t bytes, bool host_visible) = 0;
  /// True when all memory of the device is ordinary memory.
  virtual bool is_host() const = 0;
  /// Copies into the device's memory, before what is issued afterwards; `host` may change when it returns.
  virtual void upload(void* device, const void* host, int64_t bytes) = 0;
  /// Issues a copy out of the device's memory, in the queue of what wrote it; `host` holds the bytes after wait().
  /// Within a segment `host` is host_buffer()'s.
  virtual void download(void* host, const void* device, int64_t bytes, DeviceQueueKind queue) = 0;
  /// Memory of the host that a device can write while kernels run; lives as long as the backend.
  virtual void* host_buffer(int64_t bytes) = 0;

  /// How many of the next steps one kernel does together, at least 1: the first of `steps` and those after it.
  virtual size_t num_together(std::span<const LocalStep> steps) const = 0;
  /// Prepares num_together(steps) steps as one kernel; everything that it needs (primitives, scratch) is made here,
  /// once. Never returns nullptr: every op that can stand in a plan has a kernel, else InternalError.
  virtual std::unique_ptr<Kernel> prepare_together(std::span<const LocalStep> steps) = 0;
  /// One step alone.
  std::unique_ptr<Kernel> prepare(const LocalStep& step) { return prepare_together({&step, 1}); }
  /// A mark in `queue`; nullptr where everything is done when its call returns.
  virtual std::unique_ptr<Mark> make_mark(DeviceQueueKind queue) = 0;

  /// The training step that is issued from now on.
  virtual void begin_step(const StepContext& context) = 0;
  /// Issues the segment, or what it issued in an earlier call. With `is_observed` it is always issued anew, since the
  /// host looks on.
  virtual void run(Segment& segment, bool is_observed) = 0;
  /// Returns when all that was issued is done. Throws DeviceError when it failed.
  virtual void wait() = 0;

  /// The calling thread uses the backend from now on.
  virtual void enter() = 0;
  /// Before a communicator ends: nothing is kept that replays its work. Segments may not be run any more.
  virtual void release_segments() = 0;
  /// Returns when nothing runs that was issued, also when that failed.
  virtual void quiesce() = 0;

  /// Bytes that kernels and collectives of the units work in, beside the arena, as planned.
  virtual int64_t planned_workspace(const RankUnits& /*units*/) const { return 0; }
  /// nullopt where the memory is the machine's. Called in the thread of the rank.
  virtual std::optional<MemoryUse> memory_use() const { return std::nullopt; }
};

}  // namespace tpc

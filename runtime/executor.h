/// One rank of a plan: its memory, its kernels and collectives, and the loop over them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/lowering/rank_steps.h"
#include "compiler/plan/rank_plan.h"
#include "runtime/backend.h"
#include "runtime/communicator.h"
#include "runtime/host_tensor.h"

namespace tpc {

/// Bytes received from peers, per kind of collective and phase.
using Traffic = std::map<std::pair<OpKind, Phase>, int64_t>;

/// A tensor of a plan that holds a NaN or an infinity, and the step that made it (-1: it persists).
struct NonFinite {
  int step = -1;
  int tensor = -1;
  auto operator<=>(const NonFinite&) const = default;
};

/// Called in the thread of `rank` when plan step `step` is done there and nothing has read its results yet.
using StepObserver = std::function<void(int64_t rank, int step)>;

/// How long plan steps [first, end), which run as one kernel or collective, took in one training step.
struct UnitTime {
  int first = 0;
  int end = 0;
  /// What was done, in order; an update that was made in place is nothing to do.
  std::vector<OpKind> ops;
  DeviceQueueKind queue = DeviceQueueKind::kCompute;
  double ms = 0;
};

struct ExecutorOptions {
  /// Every step is a kernel of its own, the results of each can be kept, and the memory lies open to the host between
  /// steps: for observe().
  bool is_observed = false;
};

/// Kernels and collectives are prepared once, here; a step is a flat loop that decides nothing and allocates nothing.
/// Make it in the thread that runs it: memory and thread teams belong to that thread. The plan, the backend and the
/// communicator outlive it. Its memory must outlive the runs of all ranks, for peers read it.
class RankExecutor {
 public:
  /// `program` is one of `plan`, with the steps in its order.
  RankExecutor(const Plan& plan, RankPlan program, Backend& backend, Communicator& communicator,
               ExecutorOptions options = {});

  int64_t rank() const { return program_.rank; }
  /// Bytes that the plan says a GPU needs for this rank: the arena, and the working memory of its kernels.
  int64_t planned_memory() const { return planned_memory_; }

  /// This rank's part of plan.tensors[tensor], wherever in the arena it lies during a step: an address of the device.
  LocalTensor local(int tensor) const;
  /// Lets `fill` write this rank's part in ordinary memory, and brings it to the device.
  void fill(int tensor, const std::function<void(const LocalTensor& host)>& fill);
  /// Copies this rank's part out of the whole tensor.
  void load(int tensor, const HostTensor& whole);

  /// Keeps a copy of the tensor as its step made it: the arena reuses the memory of what does not persist. Named
  /// outputs of the plan are always kept.
  void keep(int tensor);
  /// The kept copy, or what the arena holds of a tensor that persists, as a tensor of the local shape; nullopt when
  /// neither exists.
  std::optional<HostTensor> kept_or_persistent(int tensor) const;
  /// Of a named output of the plan: the number that the last step made.
  float output_value(int tensor) const;

  /// Calls `observer` after every plan step of run_step, from now on; it may look at local() and change what the step
  /// made. For executors that are made to be observed.
  void observe(StepObserver observer);

  /// From now on run_step measures every unit: it waits for the device before and after each, so nothing runs beside
  /// it. A collective's time has in it how long its peers were waited for.
  void time_units() { times_units_ = true; }
  /// Of the latest measured run_step, in the order of the plan; leaves and outputs do nothing and are left out.
  std::vector<UnitTime> unit_times() const;

  /// Runs one training step. Stops before anything that persists changes when a named output is not finite, and returns
  /// that output's step. Failures carry rank, step and node; RunEnded passes through.
  std::optional<int> run_step(const StepContext& context);
  /// Runs plan steps [0, end) again, looking at every result, and returns the first that is not finite on this rank.
  /// All ranks call it together. Nothing before `end` may have changed what persists (see changes_persistent_before).
  std::optional<NonFinite> find_non_finite(const StepContext& context, int end);
  bool changes_persistent_before(int end) const;

  /// Bytes counted where data moved, in all runs of run_step.
  const Traffic& counted() const { return counted_; }
  /// Bytes that the plan predicts for one step.
  const Traffic& predicted_per_step() const { return predicted_; }

  /// The plan step that is issued now, readable from other threads; -1 between steps.
  int position() const { return position_.load(std::memory_order_relaxed); }

 private:
  // A copy of a result in ordinary memory.
  struct Kept {
    int tensor = -1;
    void* host = nullptr;
  };
  // A kernel (of plan steps [first, end)) or a collective; neither for leaves and outputs.
  struct Step {
    int first = 0;
    int end = 0;
    std::vector<OpKind> ops;
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<Collective> collective;
    DeviceQueueKind queue = DeviceQueueKind::kCompute;
    double ms = 0;         // that the latest measured run took
    int64_t received = 0;  // by the collective's last run
    int64_t* counted = nullptr;
    std::vector<Mark*> awaited;
    std::unique_ptr<Mark> mark;
    std::vector<Kept> kept;
  };
  class StepRange;

  Step prepare(const RankUnit& unit, Communicator& communicator);
  Step& step_of(int plan_step);
  void issue(Step& step, const StepContext& context);
  void issue_timed(Step& step, const StepContext& context);
  std::optional<int> run_segment(StepRange segment);
  std::optional<NonFinite> look_at(int step, const std::vector<int>& tensors) const;
  HostTensor read(int tensor) const;
  bool is_output(int tensor) const;
  [[noreturn]] void rethrow_with_place(const StepContext& context) const;

  const Plan& plan_;
  RankPlan program_;
  Backend& backend_;
  std::unique_ptr<DeviceMemory> arena_;
  bool is_observed_;
  bool times_units_ = false;
  int64_t planned_memory_ = 0;
  size_t first_change_ = 0;  // in steps_: the first that changes what persists
  Traffic counted_;
  Traffic predicted_;
  std::vector<Step> steps_;
  std::map<int, void*> kept_;  // by tensor, of the local shape
  StepObserver observer_;
  std::atomic<int> position_{-1};
};

/// `"block0.fc1" (contract)`, for messages.
std::string describe_step(const Plan& plan, int step);

}  // namespace tpc

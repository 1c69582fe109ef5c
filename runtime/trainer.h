/// Training with a plan: its ranks as threads of this process, seen from outside as one model. Where other processes
/// run some of the ranks, this is one process' view of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/backend.h"
#include "runtime/executor.h"
#include "runtime/host_tensor.h"
#include "runtime/rank_device.h"
#include "runtime/threads/rendezvous.h"

namespace tpc {

struct TrainerOptions {
  uint64_t seed = 0;
  /// Threads of each rank's kernels; 0: cores / ranks, at least 1.
  int threads_per_rank = 0;
  /// How long a rank may be waited for at a collective.
  std::chrono::milliseconds timeout{60'000};
  /// Those of this process, increasing; empty: all.
  std::vector<int64_t> ranks = {};
  /// For local() and observe(), see ExecutorOptions.
  bool is_observed = false;
  /// Brings a text to all processes of the run and returns those of all of them; by default there is but this one.
  std::function<std::vector<std::string>(std::string)> gather = {};
};

struct StepResult {
  float loss = 0;
  /// Before clipping; only when the plan has it.
  std::optional<float> grad_norm;
};

/// Memory of a rank's device.
struct RankMemory {
  int64_t planned = 0;  ///< bytes, see RankExecutor
  MemoryUse use;
};

class Trainer {
 public:
  /// Called once in the thread of each rank.
  using MakeBackend = std::function<std::unique_ptr<Backend>()>;
  /// The same; `world` is that of the ranks of this process, and has_failed() there when one of them has failed.
  using MakeDevice = std::function<RankDevice(int64_t rank, ThreadWorld& world)>;

  /// Prepares the ranks of this process and fills parameters and states (see initial_values.h). The plan has been
  /// checked. Throws DeviceError when the ranks need more memory than there is.
  Trainer(Plan plan, MakeDevice make_device, TrainerOptions options = {});
  /// All ranks, in ordinary memory, which they reach in each other directly.
  Trainer(Plan plan, MakeBackend make_backend, TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const Plan& plan() const;
  /// Training steps done.
  uint64_t step() const;
  /// Returns when the ranks of this process have done all that was issued.
  void wait();

  /// Loads the inputs in `batch` (others keep what they hold), runs one step and returns its named outputs. A loss or
  /// gradient norm that is not finite is a UserError with step, first node and rank; the step's updates are not made
  /// where the plan decides them after the value (weights are as before the step).
  StepResult train_step(const Batch& batch);

  /// Whole tensors by name, where all ranks are here; no such name is an InternalError. Tensors that do not persist can
  /// be read when keep() was called before the step that makes them. Parts are put together, partial sums added in rank
  /// order.
  void set_tensor(const std::string& name, const HostTensor& value);
  HostTensor get_tensor(const std::string& name) const;
  void keep(const std::string& name);

  /// What `rank`, one of this process, holds of a tensor that persists or is kept; of the local shape.
  HostTensor part(int64_t rank, const std::string& name) const;
  /// This rank's part of plan().tensors[tensor] in its arena, and who is told of every plan step that a rank has done
  /// (see RankExecutor). Set between training steps, of trainers that are made to be observed.
  LocalTensor local(int64_t rank, int tensor) const;
  void observe(const StepObserver& observer);

  /// The next steps measure every unit of the plan, on all ranks of this process (see RankExecutor).
  void time_units();
  /// Of the first rank of this process, in the latest step.
  std::vector<UnitTime> unit_times() const;

  /// Of the fullest rank of this process; nullopt for ordinary memory. When all that was issued is done.
  std::optional<RankMemory> memory_use() const;

  /// Bytes received so far by the ranks of this process, counted where data moved, and what the plan predicts for these
  /// steps.
  Traffic counted() const;
  Traffic predicted() const;
  /// Throws InternalError naming rank, kind and phase when any rank received other than predicted.
  void check_traffic() const;

 private:
  struct State;
  void release();
  RankExecutor& enter(size_t thread) const;
  RankExecutor& executor_of(int64_t rank) const;
  int find_tensor(const std::string& name) const;
  std::string where(int64_t thread) const;
  [[noreturn]] void throw_not_finite(int stopped_at);

  std::unique_ptr<State> state_;
};

}  // namespace tpc

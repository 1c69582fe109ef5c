/// A run in which each rank's own part of a tensor can be read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/executor.h"
#include "runtime/host_tensor.h"
#include "runtime/rank_threads.h"
#include "runtime/threads/thread_communicator.h"

namespace tpc::testing {

/// Trainer gives tensors put together, and so hides replicas that differ. Runs the plan as it is, proved or not, on the
/// cpu backend with one thread a rank.
class EveryRank {
 public:
  explicit EveryRank(Plan plan, uint64_t seed = 0);

  const Plan& plan() const { return plan_; }
  void set_tensor(const std::string& name, const HostTensor& whole);
  /// Must be called before the step that makes the tensor.
  void keep(const std::string& name);
  void train_step(const Batch& batch);
  /// Of the last step.
  float loss() const;

  struct Part {
    Region region;
    HostTensor values;  ///< of the region's shape
  };
  /// By rank. The tensor persists or is kept.
  std::vector<Part> parts(const std::string& name) const;
  /// Two ranks that hold the same part of the tensor in other bits ("block0.ln1.weight: ranks 0 and 1"), or "".
  /// Parts of a sum are not replicas and never differ.
  std::string unequal_replicas(const std::string& name) const;
  /// The same of every parameter and state: the first that differs.
  std::string unequal_replicas() const;

 private:
  int index(const std::string& name) const;

  Plan plan_;
  ThreadWorld world_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<ThreadCommunicator>> communicators_;
  std::vector<std::unique_ptr<RankExecutor>> executors_;
  uint64_t seed_;
  uint64_t step_ = 0;
  std::unique_ptr<RankThreads> threads_;  // last: ends before what it uses
};

/// The batch that `tprun --data fixed` trains on.
Batch fixed_batch(const Plan& plan, uint64_t seed = 5);
/// Values of a function of the element's index, row-major.
HostTensor filled(const TensorType& type, const std::function<float(int64_t index)>& value);
/// What a rank holds of a whole tensor.
std::vector<float> cut(const HostTensor& whole, const Region& region);

}  // namespace tpc::testing

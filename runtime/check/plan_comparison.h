/// A run of a plan beside the model's step: every rank's part of every tensor is compared when it is made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/check/model_step.h"

namespace tpc {

/// The tensor of the one-rank plan that each tensor of `plan` is, by index: the one of its name, or of its name before
/// '@' for a conversion; -1 for none. Throws UserError with the place in `file` when types differ, when a parameter,
/// state or input of the model is not the plan's, or when a named output is another tensor.
std::vector<int> match_tensors(const Plan& plan, const Plan& one_rank, const std::string& file);

/// When a tensor was looked at.
enum class Moment : uint8_t {
  kStart,  ///< a parameter or state as the plan says that it starts
  kMade,   ///< as its step made it
  kEnd,    ///< a parameter or state after the step
};

/// Ranks that hold the same part of a tensor, and do not.
struct UnequalReplicas {
  int64_t rank = -1;
  int64_t other = -1;
  int64_t index = -1;  ///< row-major, in the whole tensor
  double value = 0;
  double other_value = 0;
};

/// One tensor of the plan on all ranks.
struct CheckedTensor {
  Moment moment = Moment::kMade;
  int tensor = -1;
  /// The plan step that makes it (kMade) or gives it its new value (kEnd); -1 for none.
  int step = -1;
  int64_t num_elements = 0;
  int64_t num_differing = 0;
  int64_t num_ranks = 0;
  int64_t num_differing_ranks = 0;
  /// Largest difference as a part of what is tolerated; infinite where nothing is and something differs.
  double largest = 0;
  /// The first difference on the first rank that has one.
  int64_t rank = -1;
  int64_t index = -1;
  double found = 0;
  double wanted = 0;
  double tolerance = 0;
  std::optional<UnequalReplicas> unequal;

  bool is_good() const { return num_differing == 0 && !unequal; }
};

/// Parts (Shard) are compared where each rank holds them, replicas each, partial sums added over their ranks first.
/// Replicas must be equal bit by bit. A tensor that is only moved must have the very bits; others may be off by what
/// ModelStep::tolerance says.
///
/// What has been compared is then set to the model's value, so that each step of the plan is judged by what it makes of
/// the right operands: rounding does not add up from step to step, and of several faults each is found where it is.
/// Partial sums and tensors that the model has not are left as they are.
class PlanComparison {
 public:
  /// `match` as match_tensors says. All outlive this object.
  PlanComparison(ObservedRun& run, const ModelStep& model, const std::vector<int>& match);

  /// Compares parameters and states as the run starts with those of the model.
  void compare_start();
  /// Runs training step number `step`, the one that `model` has just run, from the model's values.
  void run(uint64_t step, const Batch& batch, const StepObserver& progress);

  /// All that was compared since the last run() began (and by compare_start before it), in program order.
  std::vector<CheckedTensor> results() const;

 private:
  // What one rank found of one tensor; several ranks add up to a CheckedTensor.
  struct Finding {
    Comparison comparison;
    double tolerance = 0;
    double scale = 0;  // of the sum that the rank has its part in
    std::optional<UnequalReplicas> unequal;
  };
  // Parts of a group of ranks that are replicas or add up, while some of them are still to come.
  struct Gathering {
    std::vector<Values> parts;  // in the order of the group
    size_t num_present = 0;
  };

  void after_step(int64_t rank, int step);
  void compare_made(int64_t rank, int step, int tensor);
  void gather(bool are_replicas, int64_t rank, int tensor, const RankPart& part);
  void compare_replicas(int tensor, const std::vector<int64_t>& group, const Region& region,
                        const std::vector<Values>& parts);
  void compare_sum(int tensor, const std::vector<int64_t>& group, const Region& region,
                   const std::vector<Values>& parts);
  double tolerance(int64_t rank, int step, int tensor) const;
  void count_terms();
  void compare_persistent(Moment moment);
  CheckedTensor merged(Moment moment, int tensor, int step) const;
  std::vector<std::vector<Finding>>& findings(Moment moment) { return findings_[static_cast<size_t>(moment)]; }

  ObservedRun& run_;
  const ModelStep& model_;
  const std::vector<int>& match_;
  const Plan& plan_;
  std::vector<std::vector<int64_t>> replicate_axes_;  // by tensor
  std::vector<std::vector<int64_t>> partial_axes_;    // by tensor
  std::vector<int64_t> num_terms_;                    // by tensor, those of its partial operands included
  std::vector<bool> has_rounded_parts_;               // by tensor, see ModelStep::Way
  std::vector<int> updated_by_;                       // by tensor: the step that gives it its new value, or -1
  std::vector<std::vector<Finding>> findings_[3];     // [moment][rank][tensor]
  bool has_start_ = false;

  std::mutex mutex_;
  // By tensor, first rank of the group, and whether they are replicas.
  std::map<std::tuple<int, int64_t, bool>, Gathering> gatherings_;
};

}  // namespace tpc

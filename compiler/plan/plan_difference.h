/// What two plans have unlike, as data: how they were asked for, what they receive, hold and do, their collectives and
/// how tensors lie. Everything is matched by name, so that plans on other meshes, and of other models, compare too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc {

/// Two texts that differ; "" on the side that has none.
struct TextChange {
  std::string name;
  std::string before;
  std::string after;
  bool operator==(const TextChange&) const = default;
};

/// Two amounts that differ; 0 on the side that has none.
struct AmountChange {
  enum class Unit : uint8_t { kBytes, kCount, kSeconds };
  std::string group;  ///< "received by phase", "memory", "steps", ...
  std::string name;   ///< "backward", "arena", "local_slice"
  Unit unit = Unit::kCount;
  double before = 0;
  double after = 0;
  bool operator==(const AmountChange&) const = default;
};

/// A collective as one of the plans has it.
struct CollectiveSide {
  int step = 0;
  OpKind kind = OpKind::kAllReduce;
  std::string axis;  ///< see axes_name
  int64_t group_size = 1;
  std::string conversion;      ///< what it makes of what on its axes: "P(sum) -> R"
  int64_t received_bytes = 0;  ///< by the fullest rank
  std::string why;
  bool operator==(const CollectiveSide&) const = default;
};

/// A collective that only one plan has, or that both have of one tensor in one phase, but unlike.
struct CollectiveChange {
  std::string tensor;  ///< what is moved, by the name that the step before all moves gave it
  std::string layer;   ///< of that step, in the first plan that has it
  Phase phase = Phase::kForward;
  std::optional<CollectiveSide> before;
  std::optional<CollectiveSide> after;
  bool operator==(const CollectiveChange&) const = default;
};

/// A tensor that both plans have, but unlike.
struct TensorChange {
  std::string tensor;
  std::string layer;  ///< that made it in the first plan; of a leaf the first that reads it
  TensorRole role = TensorRole::kOther;
  std::string before;
  std::string after;
  bool operator==(const TensorChange&) const = default;
};

/// A tensor that only one plan has; what moves make does not count.
struct LoneTensor {
  std::string tensor;
  std::string layer;  ///< as above
  TensorRole role = TensorRole::kOther;
  bool is_before = false;  ///< of the first plan
  bool operator==(const LoneTensor&) const = default;
};

struct PlanDifference {
  /// "small_gpt on mesh [tp=2], strategy megatron".
  std::string before;
  std::string after;
  /// Both carry one model; its sizes may be other ones.
  bool is_same_model = true;
  /// Model, sizes, mesh, options, proof.
  std::vector<TextChange> settings;
  std::vector<AmountChange> amounts;
  std::vector<CollectiveChange> collectives;  ///< in execution order of the first plan, then of the second
  int64_t equal_collectives = 0;
  /// Types of parameters and inputs; those of other tensors follow.
  std::vector<TensorChange> types;
  /// How tensors lie, in the words of the model (as plain placements where these are the same). An axis that only one
  /// plan has counts where it breaks the rule: dp splits activations by batch, leaves weights whole and sums over the
  /// batch to be added; on other axes a tensor lies whole.
  std::vector<TensorChange> placements;
  std::vector<LoneTensor> lone_tensors;
  /// Attributes of steps and leaves that have one name and type in both: "scale = 0.25".
  std::vector<TensorChange> attributes;
  /// Of plans that differ in nothing above and yet are not the same: what it is ("the order of steps").
  std::vector<std::string> details;

  bool empty() const {
    return is_same_model && settings.empty() && amounts.empty() && collectives.empty() && types.empty() &&
           placements.empty() && lone_tensors.empty() && attributes.empty() && details.empty();
  }
  bool operator==(const PlanDifference&) const = default;
};

/// n log n in the steps of both.
PlanDifference difference(const Plan& before, const Plan& after);

/// For people: only what differs, blocks that differ by their number only told once; one line where nothing does.
std::string difference_text(const PlanDifference& difference);
/// For programs; format "tpc-diff", version 1.
std::string difference_json(const PlanDifference& difference);

}  // namespace tpc

/// Why a part of a plan is as it is: its steps with their rules, other ways and their price, and of each collective the
/// reason, the cost, and other plans without it. Every number was computed, for this plan or for one that was compiled;
/// what ways and plans hold is by account (memory_account), not their arena.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/step_splits.h"
#include "passes/alternatives.h"
#include "passes/explained_node.h"

namespace tpc {

struct PlacedTensor {
  std::string name;
  std::string placement;  ///< see ModelWords::placement
  bool operator==(const PlacedTensor&) const = default;
};

struct ExplainedStep {
  int step = 0;
  OpKind op = OpKind::kAdd;
  Phase phase = Phase::kForward;
  std::string layer;
  std::string role;  ///< see layer_role; "" without a rule
  std::vector<PlacedTensor> reads;
  std::vector<PlacedTensor> makes;
  std::vector<StepSplit> splits;
};

/// What becomes of a collective in another plan.
struct WayAround {
  std::string change;    ///< see OtherPlan
  std::string becomes;   ///< "gone", "reduce_scatter tp, 32.8 kB"
  int64_t received = 0;  ///< bytes of a step on the fullest rank
  int64_t collectives = 0;
  int64_t arena_bytes = 0;
};

struct ExplainedCollective {
  CollectiveRow row;
  /// "all_reduce over tp of "block0.proj": partial sum -> whole".
  std::string what;
  /// What the rules of its maker (for a sum) or of its reader (for a gather) allow instead, in a sentence.
  std::string rule;
  /// Of a sum whose maker's ways were priced: the cheapest of them that leaves none.
  std::optional<Alternative> without_sum;
  std::vector<WayAround> ways;
};

struct Explanation {
  ExplainedNode node;
  std::vector<ExplainedStep> steps;
  std::vector<NodeAlternatives> alternatives;
  std::string not_priced;  ///< why the alternatives could not be priced; "" they were
  std::vector<ExplainedCollective> collectives;
  /// Changes that were compiled, and those that the compiler refuses, for the collectives' `ways`.
  std::vector<std::string> tried;
  std::vector<std::string> impossible;
  Report report;
};

/// What the plan alone tells: all but alternatives and ways around.
Explanation explain(const Plan& plan, const ExplainedNode& node, Report report);

/// With what else the compiler could do: searches and compiles other plans. `graph` is the typed model, `options` are
/// what the plan was made with.
Explanation explain(const Plan& plan, const ExplainedNode& node, Report report, const Graph& graph,
                    const CompileOptions& options);

}  // namespace tpc

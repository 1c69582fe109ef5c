/// What else a layer could do, and what the step would then cost at best.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "passes/pass.h"

namespace tpc {

/// One way of a node.
struct Alternative {
  /// "block0.ln2 R, block0.fc1.weight S(ffn) -> S(ffn)"; several axes in mesh order: "R/S(ffn)".
  std::string way;
  bool is_chosen = false;
  /// Its first result is a part of a sum on some axis.
  bool leaves_sum = false;
  /// Price and memory (memory_account) of the cheapest plan in which the node does this; absent: there is none.
  std::optional<int64_t> price;
  int64_t memory = 0;
};

struct NodeAlternatives {
  std::string op;
  std::string result;  ///< the tensor that the node makes first
  std::vector<Alternative> ways;
};

/// For the forward nodes of a layer that carry its work (its other forward nodes when none does). `graph` is typed;
/// `options` are what `plan` of it was made with. Empty when no node of the layer has a choice. UserError when the
/// search refuses.
std::vector<NodeAlternatives> layer_alternatives(const Graph& graph, const CompileOptions& options, const Plan& plan,
                                                 const std::string& layer);
/// For the node, of any phase, that makes a tensor; empty when it has no choice.
std::vector<NodeAlternatives> tensor_alternatives(const Graph& graph, const CompileOptions& options, const Plan& plan,
                                                  const std::string& tensor);

/// The corners of the convex hull of price against memory that the search finds, by increasing memory; at most
/// kMostFrontPoints.
inline constexpr size_t kMostFrontPoints = 16;
struct FrontPoint {
  int64_t price = 0;
  int64_t memory = 0;
};
struct Front {
  std::vector<FrontPoint> points;
  bool is_complete = true;
  /// No plan lies below a line between two neighbours; else bounds were all that could be found.
  bool is_proved = true;
};
Front price_memory_front(const Graph& graph, const CompileOptions& options);

}  // namespace tpc

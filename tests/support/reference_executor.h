/// Runs a graph, at any stage, on all ranks of its mesh, in double and by reference kernels only: what every pass must
/// leave as it was. A graph without a mesh runs as one rank.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/op_def.h"
#include "tests/support/simulated_ranks.h"

namespace tpc::testing {

/// Example:
///   ReferenceExecutor executor(graph);
///   executor.set_parameters(/*seed=*/1);
///   executor.set_leaf("tokens", random_integer_tensor(type, 1, "tokens", 0, vocab));
///   executor.run_step({.seed = 1, .step = 0});
///   double loss = executor.scalar("loss");
class ReferenceExecutor {
 public:
  /// States start at 0; parameters and inputs must be set.
  explicit ReferenceExecutor(Graph graph);

  const Graph& graph() const { return graph_; }

  /// Gives the leaf (parameter, input or state) its value, cut as the graph shards it.
  void set_leaf(std::string_view name, const GlobalTensor& tensor);
  /// Sets every parameter to normal values that depend on seed, name and global index only.
  void set_parameters(uint64_t seed, double std = 0.1);

  /// Runs every node once, in order. `update` writes parameters and states, as training does. Throws SimulationError
  /// when a node meets operands that do not lie as it wants them, or replicas that differ.
  void run_step(StepContext context = {});

  /// Any value of the last step, put together; leaves as they are now.
  GlobalTensor value(std::string_view name) const;
  /// An output of the last step by the name that its node gives it.
  GlobalTensor output(std::string_view name) const;
  double scalar(std::string_view value_name) const { return value(value_name).data.at(0); }
  /// Names of all outputs that the graph has.
  std::vector<std::string> output_names() const;

 private:
  ValueId find(std::string_view name) const;
  GlobalTensor assembled(ValueId id) const;
  void run_node(const Node& node, const StepContext& context);
  void run_reference(const Node& node, const StepContext& context);
  void run_moves(const Node& node, std::span<const Move> moves);
  void run_update(const Node& node);
  void check_operands(const Node& node) const;

  Graph graph_;
  std::map<std::string, ValueId, std::less<>> ids_;
  std::vector<RankTensors> buffers_;  ///< by value
};

}  // namespace tpc::testing

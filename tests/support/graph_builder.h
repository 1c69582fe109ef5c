/// Small graphs for tests, as the frontend would make them: typed values, a layer and a place for every node.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/op_def.h"

namespace tpc::testing {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "test");

  ValueId input(std::string name, Shape shape, DType dtype = DType::kF32);
  ValueId parameter(std::string name, Shape shape, bool trainable = true);
  ValueId state(std::string name, Shape shape);
  /// Makes `value` readable as output `name`.
  void output(std::string name, ValueId value);

  /// Appends a node; the results' types come from the op's infer_types. They are called `name`, or `name`.1 and so on
  /// from the second; without a name the op's one with a number ("contract3").
  std::vector<ValueId> add_node(OpKind op, std::vector<ValueId> operands, Attributes attributes = {},
                                std::string name = "");
  ValueId add(OpKind op, std::vector<ValueId> operands, Attributes attributes = {}, std::string name = "") {
    return add_node(op, std::move(operands), std::move(attributes), std::move(name))[0];
  }

  /// Phase of the nodes that follow.
  void set_phase(Phase phase) { phase_ = phase; }
  void set_loss(ValueId loss) { graph_.loss = loss; }

  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }

 private:
  Graph graph_;
  Phase phase_ = Phase::kForward;
};

}  // namespace tpc::testing

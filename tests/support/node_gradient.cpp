#include "tests/support/node_gradient.h"

#include "compiler/core/check.h"

namespace tpc::testing {
namespace {

class NodeGradBuilder final : public GradBuilder {
 public:
  NodeGradBuilder(GraphBuilder& builder, const Node& node, std::vector<ValueId> grads_of_results,
                  std::vector<bool> needs_grad)
      : builder_(builder),
        node_(node),
        grads_of_results_(std::move(grads_of_results)),
        needs_grad_(std::move(needs_grad)),
        grads_of_operands_(node.operands.size()) {}

  const Node& node() const override { return node_; }
  const TensorType& type(ValueId value) const override { return builder_.type(value); }
  ValueId grad_of_result(size_t i) const override { return grads_of_results_.at(i); }
  bool needs_grad(size_t i) const override { return needs_grad_.at(i); }

  std::vector<ValueId> emit(OpKind op, std::vector<ValueId> operands, Attributes attributes) override {
    return builder_.add_node(op, std::move(operands), std::move(attributes));
  }

  void set_grad(size_t i, ValueId grad) override {
    TPC_CHECK(needs_grad_.at(i), "gradient of operand {} is not needed", i);
    TPC_CHECK(!grads_of_operands_[i].is_valid(), "gradient of operand {} is set twice", i);
    TPC_CHECK(type(grad) == type(node_.operands[i]), "gradient of operand {} is {}, the operand {}", i,
              to_string(type(grad)), to_string(type(node_.operands[i])));
    grads_of_operands_[i] = grad;
  }

  const std::vector<ValueId>& grads_of_operands() const { return grads_of_operands_; }

 private:
  GraphBuilder& builder_;
  const Node node_;  // a copy: the graph's nodes move as gradient nodes are appended
  std::vector<ValueId> grads_of_results_;
  std::vector<bool> needs_grad_;
  std::vector<ValueId> grads_of_operands_;
};

}  // namespace

std::vector<ValueId> add_node_gradient(GraphBuilder& builder, const Node& node, std::vector<ValueId> grads_of_results,
                                       std::vector<bool> needs_grad) {
  builder.set_phase(Phase::kBackward);
  NodeGradBuilder gradient(builder, node, std::move(grads_of_results), std::move(needs_grad));
  op_def(node.op).gradient(gradient);
  return gradient.grads_of_operands();
}

}  // namespace tpc::testing

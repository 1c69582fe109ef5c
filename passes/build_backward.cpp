#include "passes/build_backward.h"

#include <fmt/format.h>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"
#include "passes/dead_nodes.h"
#include "passes/node_appender.h"

namespace tpc {
namespace {

class Differentiator final : public GradBuilder {
 public:
  Differentiator(Graph& graph, NodeAppender& appender) : graph_(graph), appender_(appender) {
    contributions_.resize(graph.values.size());
    final_.resize(graph.values.size());
    is_named_.resize(graph.values.size(), false);
    mark_needed();
  }

  /// Reverse sweep over the forward nodes. Afterwards gradient(v) is known for every trainable parameter.
  void run() {
    size_t num_forward = graph_.nodes.size();
    int loss_node = producers(graph_)[graph_.loss.position()];
    begin_node(static_cast<size_t>(loss_node));
    ValueId one = append(OpKind::kFill, {}, {{"shape", std::vector<int64_t>{}}, {"value", 1.0}}, "one")[0];
    contributions_[graph_.loss.position()].push_back(one);
    for (size_t i = num_forward; i > 0; --i) differentiate(i - 1);
  }

  ValueId gradient(ValueId value) const { return final_[value.position()]; }

  const Node& node() const override { return node_; }
  const TensorType& type(ValueId value) const override { return graph_.value(value).type; }
  ValueId grad_of_result(size_t i) const override { return final_[node_.results[i].position()]; }
  bool needs_grad(size_t i) const override { return needed_[node_.operands[i].position()]; }

  std::vector<ValueId> emit(OpKind op, std::vector<ValueId> operands, Attributes attributes) override {
    std::vector<ValueId> results = append(op, std::move(operands), std::move(attributes), std::string(op_def(op).name));
    graph_.nodes.back().differentiates = node_.results[0];
    return results;
  }

  void set_grad(size_t i, ValueId grad) override {
    ValueId operand = node_.operands[i];
    TPC_CHECK(grad.is_valid() && type(grad) == type(operand), "gradient of operand {} of {} has another type", i,
              op_def(node_.op).name);
    if (needed_[operand.position()]) contributions_[operand.position()].push_back(grad);
  }

 private:
  /// needed_[v]: a trainable parameter lies behind v.
  void mark_needed() {
    needed_.assign(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      bool need = node.op == OpKind::kParameter && node.attributes.get_bool("trainable");
      if (op_def(node.op).gradient != nullptr) {
        for (ValueId operand : node.operands) need = need || needed_[operand.position()];
      }
      for (ValueId result : node.results) needed_[result.position()] = need;
    }
  }

  void begin_node(size_t index) { node_ = graph_.nodes[index]; }

  void differentiate(size_t index) {
    begin_node(index);
    bool any = false;
    for (ValueId result : node_.results) {
      sum_contributions(result);
      any = any || final_[result.position()].is_valid();
    }
    const OpDef& def = op_def(node_.op);
    if (!any || def.gradient == nullptr) return;
    bool needed = false;
    for (size_t i = 0; i < node_.operands.size(); ++i) needed = needed || needs_grad(i);
    if (needed) def.gradient(*this);
  }

  /// A value used several times (a residual stream, a tied weight) has the sum of its uses' gradients.
  void sum_contributions(ValueId value) {
    std::vector<ValueId>& parts = contributions_[value.position()];
    if (parts.empty()) return;
    ValueId total = parts[0];
    if (parts.size() > 1) {
      total = append(OpKind::kAdd, parts, {}, "sum")[0];
    }
    // The same tensor can be the gradient of several values (an addition passes it on): it keeps its first name.
    if (!is_named_[total.position()]) appender_.rename(total, "grad." + graph_.value(value).name);
    is_named_[total.position()] = true;
    final_[value.position()] = total;
  }

  std::vector<ValueId> append(OpKind op, std::vector<ValueId> operands, Attributes attributes,
                              const std::string& what) {
    Node node;
    node.op = op;
    node.layer = node_.layer;
    node.origin = node_.origin;
    node.phase = Phase::kBackward;
    node.operands = std::move(operands);
    node.attributes = std::move(attributes);
    // Temporary names, until it is known what they are the gradients of.
    std::vector<ValueId> results = appender_.append(
        std::move(node), [&](size_t) { return fmt::format("{}.{}~{}", node_.layer, what, counter_++); });
    contributions_.resize(graph_.values.size());
    final_.resize(graph_.values.size());
    needed_.resize(graph_.values.size(), false);
    is_named_.resize(graph_.values.size(), false);
    return results;
  }

  Graph& graph_;
  NodeAppender& appender_;
  Node node_;
  std::vector<std::vector<ValueId>> contributions_;
  std::vector<ValueId> final_;
  std::vector<bool> needed_;
  std::vector<bool> is_named_;
  int64_t counter_ = 0;
};

/// Appends the optimizer: norm and clip coefficient (when asked for), then one update a parameter.
class OptimizerBuilder {
 public:
  OptimizerBuilder(const Graph& graph, NodeAppender& appender, const OptimizerSettings& settings)
      : graph_(graph), appender_(appender), settings_(settings) {}

  struct Trained {
    ValueId parameter;
    ValueId gradient;
    std::string layer;
    std::string origin;
  };

  void run(const std::vector<Trained>& trained) {
    if (settings_.clip_norm > 0 && !trained.empty()) build_clip(trained);
    for (const Trained& item : trained) build_update(item);
  }

 private:
  void build_clip(const std::vector<Trained>& trained) {
    std::vector<ValueId> squares;
    for (const Trained& item : trained) {
      std::string name = graph_.value(item.parameter).name;
      squares.push_back(
          append(OpKind::kSumSquares, {item.gradient}, {}, {"norm2." + name}, item.layer, item.origin)[0]);
    }
    ValueId total = squares[0];
    if (squares.size() > 1) total = append(OpKind::kAdd, squares, {}, {"norm2"}, "optimizer", settings_.pointer)[0];
    ValueId norm = append(OpKind::kSquareRoot, {total}, {}, {"grad_norm"}, "optimizer", settings_.pointer)[0];
    append(OpKind::kOutput, {norm}, {{"name", std::string("grad_norm")}}, {}, "optimizer", settings_.pointer);
    coefficient_ = append(OpKind::kClipCoefficient, {total}, {{"max_norm", settings_.clip_norm}}, {"clip_coefficient"},
                          "optimizer", settings_.pointer)[0];
  }

  void build_update(const Trained& item) {
    const std::string name = graph_.value(item.parameter).name;
    const Shape shape = graph_.value(item.parameter).type.shape;
    std::vector<ValueId> targets{item.parameter};
    std::vector<ValueId> operands{item.parameter, item.gradient};
    std::vector<std::string> results{name + ".next"};
    auto add_state = [&](const std::string& suffix) {
      ValueId state = append(OpKind::kState, {}, {{"shape", shape}}, {name + suffix}, item.layer, item.origin)[0];
      targets.push_back(state);
      operands.push_back(state);
      results.push_back(name + suffix + ".next");
    };
    Attributes attributes{
        {"lr", settings_.lr}, {"weight_decay", settings_.weight_decay}, {"has_coefficient", coefficient_.is_valid()}};
    OpKind op = OpKind::kAdamW;
    if (settings_.type == "adamw") {
      attributes.set("beta1", settings_.beta1);
      attributes.set("beta2", settings_.beta2);
      attributes.set("eps", settings_.eps);
      add_state(".m");
      add_state(".v");
    } else {
      op = OpKind::kSgd;
      attributes.set("momentum", settings_.momentum);
      if (settings_.momentum != 0) add_state(".momentum");
    }
    if (coefficient_.is_valid()) operands.push_back(coefficient_);
    std::vector<ValueId> next = append(op, operands, attributes, results, item.layer, item.origin);
    for (size_t i = 0; i < targets.size(); ++i) {
      append(OpKind::kUpdate, {targets[i], next[i]}, {}, {}, item.layer, item.origin);
    }
  }

  std::vector<ValueId> append(OpKind op, std::vector<ValueId> operands, Attributes attributes,
                              const std::vector<std::string>& names, const std::string& layer,
                              const std::string& origin) {
    Node node;
    node.op = op;
    node.layer = layer;
    node.origin = origin;
    node.phase = Phase::kOptimizer;
    node.operands = std::move(operands);
    node.attributes = std::move(attributes);
    return appender_.append(std::move(node), names);
  }

  const Graph& graph_;
  NodeAppender& appender_;
  const OptimizerSettings& settings_;
  ValueId coefficient_;
};

}  // namespace

Graph build_backward(Graph graph, const PassContext& context) {
  TPC_CHECK(graph.loss.is_valid(), "a graph without loss reached build-backward");
  std::vector<size_t> parameters;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == OpKind::kParameter && node.attributes.get_bool("trainable")) parameters.push_back(i);
  }
  NodeAppender appender(graph);
  Differentiator differentiator(graph, appender);
  differentiator.run();

  std::vector<OptimizerBuilder::Trained> trained;
  for (size_t i : parameters) {
    const Node& node = graph.nodes[i];
    ValueId parameter = node.results[0];
    ValueId gradient = differentiator.gradient(parameter);
    if (!gradient.is_valid()) {
      context.diagnostics.warning(graph.loc(node), fmt::format("the loss does not depend on \"{}\": it is not trained",
                                                               graph.value(parameter).name));
      continue;
    }
    trained.push_back({parameter, gradient, node.layer, node.origin});
  }
  OptimizerBuilder(graph, appender, context.options.optimizer).run(trained);
  // An op's gradient may emit what its operand then does not need (the gradient of a count).
  return remove_dead_nodes(std::move(graph));
}

}  // namespace tpc

#include "passes/apply_precision.h"

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"
#include "passes/node_appender.h"

namespace tpc {
namespace {

// What a float value is, by how it is stored and how it is taken.
enum class Form : uint8_t {
  kFull,  ///< f32, and meant so
  kLeaf,  ///< f32: a parameter or input, computed with in the compute type
  kSum,   ///< f32: a sum that may have parts, then computed with in the compute type
  kData,  ///< the compute type
};

class PrecisionWriter {
 public:
  explicit PrecisionWriter(Graph& graph)
      : graph_(graph),
        precision_(graph.precision),
        form_(graph.values.size(), Form::kFull),
        wanted_full_(graph.values.size(), false),
        needs_f32_(graph.values.size(), false),
        needs_data_(graph.values.size(), false),
        narrow_(graph.values.size()),
        wide_(graph.values.size()) {}

  void run() {
    for (size_t i = graph_.nodes.size(); i > 0; --i) want_full(graph_.nodes[i - 1]);
    for (Node& node : graph_.nodes) plan(node);
    write();
  }

 private:
  bool is_float(ValueId value) const { return tpc::is_float(graph_.value(value).type.dtype); }
  Form form(ValueId value) const { return form_[value.position()]; }
  bool is_data(ValueId value) const { return form(value) == Form::kData; }

  static const FloatRoles& roles(const Node& node) { return op_def(node.op).floats; }

  /// Operands that share one element type with the results.
  static std::vector<size_t> alike_operands(const Node& node) {
    std::vector<size_t> alike;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (roles(node).of_operand(i) == FloatRole::kAlike) alike.push_back(i);
    }
    return alike;
  }

  /// A gradient of a parameter is f32 all the way back to the sums that it is made of.
  void want_full(const Node& node) {
    bool result_is_wanted = std::any_of(node.results.begin(), node.results.end(),
                                        [&](ValueId result) { return bool{wanted_full_[result.position()]}; });
    for (size_t i = 0; i < node.operands.size(); ++i) {
      FloatRole role = roles(node).of_operand(i);
      bool wants = role == FloatRole::kFull || (role == FloatRole::kAlike && result_is_wanted);
      if (wants) wanted_full_[node.operands[i].position()] = true;
    }
  }

  /// Whether operands and results with role kAlike are f32, and what the results are then.
  Form alike_form(const Node& node, const std::vector<size_t>& alike) const {
    bool all_full = true, any_full = false, all_sums = true, any_data = false;
    for (size_t i : alike) {
      if (!is_float(node.operands[i])) return Form::kFull;
      all_full = all_full && form(node.operands[i]) == Form::kFull;
      any_full = any_full || form(node.operands[i]) == Form::kFull;
      all_sums = all_sums && form(node.operands[i]) == Form::kSum;
      any_data = any_data || is_data(node.operands[i]);
    }
    if (all_full) return Form::kFull;
    // A statistic that scales data is not rounded for it: 1 / count would be off alike in every gradient.
    if (any_full) return Form::kSum;
    bool accumulates = op_def(node.op).accumulates;
    bool is_wanted = wanted_full_[node.results[0].position()] && (accumulates || !any_data);
    // What ranks have parts of is added up before it is rounded: one collective for all.
    bool is_unrounded = accumulates && all_sums && precision_.reduce == DType::kF32;
    return is_wanted || is_unrounded ? Form::kSum : Form::kData;
  }

  void plan(Node& node) {
    if (is_leaf(node.op)) {
      bool is_computed_with = node.op == OpKind::kParameter || node.op == OpKind::kInput;
      if (is_computed_with) form_[node.results[0].position()] = Form::kLeaf;
      return;
    }
    std::vector<size_t> alike = alike_operands(node);
    Form of_alike = alike.empty() || node.results.empty() ? Form::kFull : alike_form(node, alike);
    std::vector<bool>& as_data = as_data_.emplace_back(node.operands.size(), false);
    bool any_data = false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      ValueId operand = node.operands[i];
      if (!is_float(operand)) continue;
      as_data[i] = is_taken_as_data(roles(node).of_operand(i), form(operand), of_alike);
      (as_data[i] ? needs_data_ : needs_f32_)[operand.position()] = true;
      any_data = any_data || as_data[i];
    }
    bool sums_are_f32 = precision_.reduce == DType::kF32;
    for (size_t r = 0; r < node.results.size(); ++r) {
      bool is_sum = roles(node).of_result(r) == FloatRole::kSum;
      sums_are_f32 = sums_are_f32 || (is_sum && wanted_full_[node.results[r].position()]);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      Form& made = form_[node.results[r].position()];
      switch (roles(node).of_result(r)) {
        case FloatRole::kAlike:
          made = of_alike;
          break;
        case FloatRole::kData:
          made = Form::kData;
          break;
        case FloatRole::kFull:
        case FloatRole::kAny:
          made = Form::kFull;
          break;
        case FloatRole::kSum:
          if (any_data && sums_are_f32) node.attributes.set("sums", std::string("f32"));
          made = !any_data ? Form::kFull : sums_are_f32 ? Form::kSum : Form::kData;
          break;
      }
    }
  }

  static bool is_taken_as_data(FloatRole role, Form form, Form of_alike) {
    switch (role) {
      case FloatRole::kAlike:
        return of_alike == Form::kData;
      case FloatRole::kData:
        return true;
      case FloatRole::kAny:
        return form == Form::kData || form == Form::kSum;
      case FloatRole::kFull:
      case FloatRole::kSum:
        return false;
    }
    TPC_UNREACHABLE("role {}", static_cast<int>(role));
  }

  void write() {
    std::vector<Node> source = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(source.size() + source.size() / 4);
    NodeAppender appender(graph_);
    size_t planned = 0;
    for (Node& node : source) {
      if (is_leaf(node.op)) {
        graph_.nodes.push_back(std::move(node));
        continue;
      }
      const std::vector<bool>& as_data = as_data_[planned++];
      for (size_t i = 0; i < node.operands.size(); ++i) {
        if (is_float(node.operands[i])) node.operands[i] = taken(appender, node, node.operands[i], as_data[i]);
      }
      std::vector<TensorType> types = op_def(node.op).infer_types({node.attributes, operand_types(graph_, node), {}});
      for (size_t r = 0; r < types.size(); ++r) graph_.value(node.results[r]).type = types[r];
      Node maker = node;
      graph_.nodes.push_back(std::move(node));
      // At once: the other form need not wait with it for its uses.
      for (ValueId result : maker.results) {
        if (!is_float(result)) continue;
        bool has_other = is_data(result) ? needs_f32_[result.position()] : needs_data_[result.position()];
        if (has_other) taken(appender, maker, result, !is_data(result));
      }
    }
  }

  /// The value in the type that is asked for; what casts it is made on behalf of `node`.
  ValueId taken(NodeAppender& appender, const Node& node, ValueId value, bool as_data) {
    if (as_data == is_data(value)) return value;
    ValueId& other = (as_data ? narrow_ : wide_)[value.position()];
    if (other.is_valid()) return other;
    std::string to(to_string(as_data ? precision_.compute : DType::kF32));
    Node cast;
    cast.op = OpKind::kCast;
    cast.layer = node.layer;
    cast.origin = node.origin;
    cast.phase = node.phase;
    cast.operands = {value};
    cast.attributes = {{"to", to}};
    other = appender.append(std::move(cast), {graph_.value(value).name + "." + to})[0];
    graph_.value(other).dim_names = graph_.value(value).dim_names;
    return other;
  }

  Graph& graph_;
  const Precision precision_;
  // By value of the graph as it came.
  std::vector<Form> form_;
  std::vector<bool> wanted_full_;  ///< some use, however far, is f32
  std::vector<bool> needs_f32_;
  std::vector<bool> needs_data_;
  std::vector<ValueId> narrow_;  ///< its cast to the compute type
  std::vector<ValueId> wide_;    ///< its cast to f32
  /// Per node but leaves: which operands it takes in the compute type.
  std::vector<std::vector<bool>> as_data_;
};

}  // namespace

Graph apply_precision(Graph graph, const PassContext& /*context*/) {
  if (graph.precision.is_mixed()) PrecisionWriter(graph).run();
  return graph;
}

}  // namespace tpc

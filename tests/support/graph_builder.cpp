#include "tests/support/graph_builder.h"

#include <fmt/format.h>

#include <limits>

#include "compiler/core/check.h"

namespace tpc::testing {

GraphBuilder::GraphBuilder(std::string name) {
  graph_.name = std::move(name);
  graph_.source_file = graph_.name + ".json";
}

ValueId GraphBuilder::input(std::string name, Shape shape, DType dtype) {
  return add(OpKind::kInput, {}, {{"shape", std::move(shape)}, {"dtype", std::string(to_string(dtype))}},
             std::move(name));
}

ValueId GraphBuilder::parameter(std::string name, Shape shape, bool trainable) {
  Attributes attributes{{"shape", std::move(shape)},
                        {"dtype", std::string("f32")},
                        {"init", std::string("normal")},
                        {"std", 0.1},
                        {"trainable", trainable}};
  return add(OpKind::kParameter, {}, std::move(attributes), std::move(name));
}

ValueId GraphBuilder::state(std::string name, Shape shape) {
  return add(OpKind::kState, {}, {{"shape", std::move(shape)}}, std::move(name));
}

void GraphBuilder::output(std::string name, ValueId value) {
  add_node(OpKind::kOutput, {value}, {{"name", std::move(name)}});
}

std::vector<ValueId> GraphBuilder::add_node(OpKind op, std::vector<ValueId> operands, Attributes attributes,
                                            std::string name) {
  const OpDef& def = op_def(op);
  int num_operands = static_cast<int>(operands.size());
  TPC_CHECK(num_operands >= def.min_operands && num_operands <= def.max_operands, "{} does not take {} operands",
            def.name, num_operands);
  Node node;
  node.op = op;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.phase = phase_;
  node.layer = name.empty() ? fmt::format("{}{}", def.name, graph_.nodes.size()) : std::move(name);
  node.origin = fmt::format("/layers/{}", graph_.nodes.size());
  std::vector<TensorType> types = operand_types(graph_, node);
  std::vector<TensorType> result_types = def.infer_types({node.attributes, types, {}});
  for (size_t i = 0; i < result_types.size(); ++i) {
    std::string value_name = i == 0 ? node.layer : fmt::format("{}.{}", node.layer, i);
    node.results.push_back(add_value(graph_, std::move(value_name), std::move(result_types[i])));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().results;
}

}  // namespace tpc::testing

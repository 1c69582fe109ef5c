#include "passes/node_appender.h"

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {

NodeAppender::NodeAppender(Graph& graph) : graph_(graph) {
  for (const Value& value : graph.values) names_.insert(value.name);
}

std::vector<ValueId> NodeAppender::append(Node node, const std::vector<std::string>& names) {
  std::string_view op = op_def(node.op).name;
  std::vector<ValueId> results = append(std::move(node), [&](size_t i) { return i < names.size() ? names[i] : ""; });
  TPC_CHECK(results.size() == names.size(), "{} makes {} results, {} names", op, results.size(), names.size());
  return results;
}

std::vector<ValueId> NodeAppender::append(Node node, const std::function<std::string(size_t)>& name_of) {
  std::vector<TensorType> types = op_def(node.op).infer_types({node.attributes, operand_types(graph_, node), {}});
  for (size_t i = 0; i < types.size(); ++i) node.results.push_back(add_value(graph_, unique(name_of(i)), types[i]));
  std::vector<ValueId> results = node.results;
  graph_.nodes.push_back(std::move(node));
  return results;
}

void NodeAppender::rename(ValueId value, const std::string& wanted) {
  names_.erase(graph_.value(value).name);
  graph_.value(value).name = unique(wanted);
}

std::string NodeAppender::unique(std::string name) {
  while (!names_.insert(name).second) name += "~";
  return name;
}

}  // namespace tpc

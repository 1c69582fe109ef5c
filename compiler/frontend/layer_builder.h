/// What a layer's expansion is written with: reading its JSON object and appending primitive nodes to the graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontend/json_node.h"
#include "compiler/frontend/name_table.h"
#include "compiler/frontend/named_sizes.h"
#include "compiler/ir/graph.h"

namespace tpc {

/// The model while it is read.
struct ModelContext {
  Graph graph;
  NamedSizes sizes;
  NameTable names;
  DiagnosticSink& sink;
  /// Values by name, to keep them unique ("fc1.weight" may be a weight of fc1 or a layer of a block fc1).
  std::map<std::string, ValueId> values;
};

/// Where a layer stands: the prefix of its full name, and the lists of layers around it, outermost first.
struct LayerScope {
  std::string prefix;
  std::vector<JsonNode> lists;
};

/// A result of a node: the name is the layer's with this suffix; `names` are its dimensions' names, outermost first.
struct ResultSpec {
  std::string suffix;
  std::vector<std::string> dim_names;
};

class LayerBuilder {
 public:
  LayerBuilder(ModelContext& model, const LayerScope& scope, const JsonNode& json, std::string full_name);

  const JsonNode& json() const { return json_; }
  /// As messages quote it: `"block0.fc1"`, quotes included.
  std::string quoted_name() const { return "\"" + name_ + "\""; }
  const std::string& name() const { return name_; }
  bool has(std::string_view key) const { return json_.has(key); }
  JsonNode required(std::string_view key) const { return json_.required(key, quoted_name()); }

  /// The value that a layer's name or an input's means at `node`. Wrong element types are a mistake at `node`.
  Tensor tensor(const JsonNode& node, std::optional<DType> dtype = DType::kF32) const;
  Tensor input(std::optional<DType> dtype = DType::kF32) const { return tensor(required("input"), dtype); }
  /// "inputs": a list of `fewest` to `most` names.
  std::vector<Tensor> inputs(size_t fewest, size_t most, std::optional<DType> dtype = DType::kF32) const;
  /// Places of the elements of "inputs", or of "input".
  JsonNode input_node(size_t index) const;

  Dim size(const JsonNode& node) { return model_.sizes.resolve(node); }
  Dims sizes(const JsonNode& node) { return model_.sizes.resolve_list(node); }
  double number(const JsonNode& node) { return model_.sizes.resolve_number(node); }
  /// A dimension of `dims` by name or index (from 0). `what` names the tensor in messages.
  int64_t dim_index(const JsonNode& node, const Dims& dims, std::string_view what) const;

  /// The layer's weight: a new parameter "<layer>.weight", or the one that "weight" names, which must have these sizes.
  Tensor weight(const Dims& dims, std::string_view default_init);
  /// A new parameter "<layer>.<suffix>" that starts as the initializer under `init_key` says.
  Tensor parameter(std::string_view suffix, const Dims& dims, std::string_view init_key, std::string_view default_init);

  /// Appends a node and returns its results. The first node that is not a parameter bears the layer's annotation,
  /// unless annotate_last() moves it.
  std::vector<Tensor> emit(OpKind op, const std::vector<Tensor>& operands, Attributes attributes,
                           const std::vector<ResultSpec>& results);
  Tensor emit_one(OpKind op, const std::vector<Tensor>& operands, Attributes attributes, ResultSpec result) {
    return emit(op, operands, std::move(attributes), {std::move(result)})[0];
  }
  void annotate_last() { main_node_ = last_node_; }

  /// Reads "shard" into the annotated node. Called after the expansion.
  void annotate(bool has_weight, bool has_linear_weight);

  [[noreturn]] void fail(const JsonNode& at, std::string message, std::vector<Note> notes = {}) const {
    at.fail(std::move(message), std::move(notes));
  }

 private:
  struct EmittedNode {
    size_t index = 0;
    std::vector<Tensor> operands;
    Tensor result;
  };

  void check_results(OpKind op, const std::vector<TensorType>& types) const;
  [[noreturn]] void fail_unknown_name(const JsonNode& node, const std::string& name) const;
  Tensor tied_weight(const JsonNode& node, const Dims& dims) const;

  ModelContext& model_;
  const LayerScope& scope_;
  const JsonNode& json_;
  std::string name_;
  std::optional<EmittedNode> main_node_;
  std::optional<EmittedNode> last_node_;
};

/// "int32", "float32": how model files write it.
std::string_view file_spelling(DType dtype);

/// Names of the dimensions, for ResultSpec.
std::vector<std::string> names_of(const Dims& dims);

/// `"block0.x" has shape [batch=4, seq=32]`, for the layer or input that `node` names.
std::string shape_clause(const JsonNode& node, const Tensor& tensor);

}  // namespace tpc

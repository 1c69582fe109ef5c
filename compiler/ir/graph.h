/// The graph: a training step (or its forward half) as a list of primitive ops on named tensors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "compiler/core/ids.h"
#include "compiler/core/shape.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_kind.h"
#include "compiler/ir/precision.h"
#include "compiler/ir/search_proof.h"
#include "compiler/sharding/device_mesh.h"
#include "compiler/sharding/placement.h"
#include "compiler/sharding/sharding_rule.h"

namespace tpc {

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

/// "forward", "backward", "optimizer".
std::string_view to_string(Phase phase);

/// What a pass promises of the graph that it returns; verify_graph holds it to that. In pipeline order.
enum class Stage : uint8_t {
  kParsed,          ///< nodes in topological order; known ops; arity; unique names
  kTyped,           ///< every value has the type that infer_types says
  kDifferentiated,  ///< at most one update for each trainable parameter, none for frozen ones
  kPlaced,          ///< every operand has a sharding wanted, every value a sharding made, as the op's rule allows
  kReconciled,      ///< wanted equals made: differences are explicit redistribute nodes
  kCollective,      ///< no redistribute left: collectives and local moves only
  kLocal,           ///< the same; local shapes are functions of shape, sharding, mesh and coordinate
  kScheduled,       ///< the same, in final order
};

/// "parsed", ..., "scheduled".
std::string_view to_string(Stage stage);

/// A tensor of the step, made once by one node. `type` is global: the shape that the user wrote.
struct Value {
  /// "block0.fc1", "block0.fc1.weight", "grad.block0.fc1.weight"; unique.
  std::string name;
  TensorType type;
  /// The user's names of the dimensions ("batch", "heads", "3"), for messages; empty where a pass made the value.
  std::vector<std::string> dim_names;
  /// As its node makes it; empty before Stage::kPlaced.
  TensorSharding sharding;
  /// At Stage::kPlaced only: the forms that wait for the backward pass, whose uses are served from them (and from a
  /// leaf as it lies: its own sharding alone means that what forward gathered is gathered again). Empty: every form
  /// that forward made serves.
  std::vector<TensorSharding> kept;
  /// At Stage::kPlaced only: forms that are made first, and serve the uses of a phase where several share them; by
  /// phase. Empty: those that the uses want.
  std::array<std::vector<TensorSharding>, 3> via;
  /// Shape of the fullest rank's part; absent before Stage::kLocal.
  std::optional<Shape> local_shape;
  bool operator==(const Value&) const = default;
};

/// An annotation of the user's: what is pinned on the tensor-parallel axis. Completed or refused by assign-shardings.
struct Annotation {
  /// "column", "row" or "replicate" for the whole layer; "" when only uses are pinned.
  std::string layer;
  /// Per use: "input", "weight", "output" -> "R" or "S(<dim name or index>)" resolved to a dimension of that tensor.
  std::vector<std::pair<std::string, Placement>> uses;
  std::string pointer;
  bool empty() const { return layer.empty() && uses.empty(); }
  bool operator==(const Annotation&) const = default;
};

struct Node {
  OpKind op = OpKind::kAdd;
  /// The layer that the node came from ("block0.fc1"); several nodes may share it.
  std::string layer;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;
  Phase phase = Phase::kForward;
  /// JSON pointer of the layer in the model file ("/layers/1/layers/5").
  std::string origin;
  /// For gradient nodes: the first result of the forward node that this one differentiates; invalid otherwise.
  ValueId differentiates;
  Annotation annotation;
  /// One an operand, from Stage::kPlaced on: how this use wants it.
  std::vector<TensorSharding> operand_shardings;
  /// Why a collective or move is here, in the user's terms.
  std::string why;
  bool operator==(const Node&) const = default;
};

/// A regular value: copyable, comparable, deterministic. `nodes` is in topological (execution) order; a ValueId indexes
/// `values` and stays the same when nodes are inserted or reordered.
struct Graph {
  std::string name;
  /// The model file, as the user named it.
  std::string source_file;
  /// As the model asks; values have these types from apply-precision on.
  Precision precision;
  /// Empty before assign-shardings: then the mesh that the user asked for, with axes split into sub-axes where needed.
  DeviceMesh mesh;
  std::vector<Node> nodes;
  std::vector<Value> values;
  /// The scalar to minimise; invalid for a graph that only infers.
  ValueId loss;
  /// Set by a strategy that searches.
  std::optional<SearchProof> proof;

  const Value& value(ValueId id) const { return values[id.position()]; }
  Value& value(ValueId id) { return values[id.position()]; }
  SourceLoc loc(const Node& node) const { return {source_file, node.origin}; }
  bool operator==(const Graph&) const = default;
};

/// Appends a value; names must be unique.
ValueId add_value(Graph& graph, std::string name, TensorType type);

/// For every value the index of the node that makes it (-1: none).
std::vector<int> producers(const Graph& graph);

/// "heads" where the user named dimension `dim`, else "dimension 2".
std::string dim_name(const Value& value, int64_t dim);
/// A placement in the user's words: "S(heads)" for S(2).
std::string placement_name(const Value& value, const Placement& placement);

/// A use of a value: operand `operand` of nodes[node].
struct Use {
  int node = 0;
  int operand = 0;
};
/// For every value its uses, in node order.
std::vector<std::vector<Use>> uses(const Graph& graph);

/// Shapes and types of a node's operands and results, for ops' functions.
std::vector<TensorType> operand_types(const Graph& graph, const Node& node);
std::vector<TensorType> result_types(const Graph& graph, const Node& node);
std::vector<Shape> operand_shapes(const Graph& graph, const Node& node);
std::vector<Shape> result_shapes(const Graph& graph, const Node& node);

}  // namespace tpc

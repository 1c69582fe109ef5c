/// What strategy search may choose from: for every node the legal ways to split it, for every leaf the ways to lie at
/// rest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/strategies/dim_classes.h"
#include "passes/strategies/node_rules.h"
#include "passes/strategies/shared_heads.h"

namespace tpc {

/// The ways of one node; nodes that are alike share them.
struct NodeChoices {
  /// [way][axis].
  std::vector<std::vector<Strategy>> strategies;
  std::vector<NodeSharding> shardings;
};

/// Throws UserError: the step has more choices than can be worked out exactly.
[[noreturn]] void refuse_too_many_choices();

/// Rules beyond legality:
///   work       a heavy op is split on every axis (else the cheapest plan repeats everything on every rank and moves
///              nothing), except keys and values that fewer heads than ranks make (SharedHeads)
///   roles      dp splits the batch of activations, and any dimension of tensors without one; tp, beside a dp, anything
///              but the batch; no roles with SearchOptions::free_axes
///   sub-axes   those of one axis of the user's do the same, unless they were asked for or share kv heads
///   norm       the sum of the gradients' squares waits as a partial sum beside dp (it touches every layer; a scalar)
///   wishes     SearchOptions::no_split; annotations bind a forward node (and its weight at rest, where that is pinned)
///   on tp
class SearchSpace {
 public:
  /// Throws UserError when SearchOptions::no_split names no dimension.
  SearchSpace(const Graph& graph, const NodeRules& rules, const SearchOptions& options);

  /// -1 for leaves, sinks and nodes without a rule; else an index for choices().
  int kind(size_t node) const { return kind_of_node_[node]; }
  const NodeChoices& choices(int kind) const { return choices_[static_cast<size_t>(kind)]; }

  /// -1 for values that are no leaf, constants, and optimizer state (which lies as its update works); else an index for
  /// at_rest().
  int leaf_kind(ValueId value) const { return kind_of_leaf_[value.position()]; }
  const std::vector<TensorSharding>& at_rest(int kind) const { return at_rest_[static_cast<size_t>(kind)]; }

  /// A sum of the gradient norm: it touches every layer, so that its few ways are tried one after the other, outside of
  /// the network (SearchNetwork::num_norm_ways).
  bool is_norm_sum(size_t node) const;

  /// What a node may be split by on an axis, large enough or not: a dimension's name and how many blocks it has at
  /// most.
  struct Split {
    std::string dim;
    int64_t blocks = 0;
  };
  std::vector<Split> splits(size_t node, size_t axis) const;

  /// Nodes and leaves (one of a kind) that no way is left for: then there is no plan.
  const std::vector<size_t>& empty_nodes() const { return empty_nodes_; }
  const std::vector<ValueId>& empty_leaves() const { return empty_leaves_; }

 private:
  enum class Role : uint8_t { kFree, kData, kTensor };

  void find_roles();
  void find_units();
  void find_choices();
  void find_leaves();

  bool may_split(ValueId value, size_t dim, Role role) const;
  bool fits_role(const Node& node, const RuledNode& ruled, Strategy strategy, size_t axis, bool is_pinned) const;
  std::vector<Strategy> ways_on_axis(size_t node, size_t axis) const;
  const std::vector<int64_t>& units_of(ValueId value, int64_t dim) const;
  /// The axis is a sub-axis that must do as the one before it, but for shared heads.
  bool continues_axis(size_t axis) const;
  bool agree_on_sub_axes(const ShardingRule& rule, bool may_share, const std::vector<Strategy>& chosen,
                         Strategy next) const;
  std::vector<std::vector<Strategy>> norm_ways(size_t node) const;
  NodeChoices make_choices(size_t node) const;
  std::vector<TensorSharding> make_at_rest(ValueId leaf, const std::vector<const Node*>& pinned_by) const;
  std::string node_key(size_t node) const;
  void append_flags(std::string& key, ValueId value) const;
  bool is_tensor_parallel(size_t axis) const { return user_axis(graph_.mesh.axes()[axis].name) == "tp"; }

  const Graph& graph_;
  const NodeRules& rules_;
  const SearchOptions& options_;
  DimClasses classes_;
  SharedHeads shared_;
  std::vector<Role> roles_;
  /// Per value and dimension the units, other than 1, in which some op wants it split.
  std::map<std::pair<ValueId, int64_t>, std::vector<int64_t>> units_;
  std::vector<NodeChoices> choices_;
  std::vector<int> kind_of_node_;
  std::vector<std::vector<TensorSharding>> at_rest_;
  std::vector<int> kind_of_leaf_;
  std::vector<size_t> empty_nodes_;
  std::vector<ValueId> empty_leaves_;
};

}  // namespace tpc

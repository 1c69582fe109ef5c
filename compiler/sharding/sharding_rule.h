/// What an op allows, as one value: its factors and linear groups. Every legal placement of its operands and results
/// follows from it; no pass switches on an op's name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/sharding/placement.h"

namespace tpc {

/// A factor is an index of the op's formula ("b", "s", "f") that ranks may divide among them.
/// Splitting a factor shards the dimension of every operand and result that has it. Operands without it are replicated;
/// results without it are Partial(reduce): each rank contributes the terms of its block.
struct Factor {
  /// Where a tensor carries the factor: a dimension, in whole units of `unit` elements.
  struct Use {
    int64_t dim = 0;
    int64_t unit = 1;
    bool operator==(const Use&) const = default;
  };

  std::string name;
  std::vector<std::optional<Use>> operands;
  std::vector<std::optional<Use>> results;
  ReduceOp reduce = ReduceOp::kSum;
  /// Index of a factor that must be split by outer mesh axes only, if at all, when this one is split too (query heads
  /// inside their kv group); -1 when free.
  int inside = -1;

  bool operator==(const Factor&) const = default;
};

/// The op is homogeneous linear, jointly, in these operands: if all of them are Partial(sum) and the others replicated,
/// every result is Partial(sum). A contraction has {x} and {w}; an addition has {a, b} (a replicated bias added to a
/// partial sum would count once per rank).
struct LinearGroup {
  std::vector<int> operands;
  bool operator==(const LinearGroup&) const = default;
};

struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<LinearGroup> linear;

  /// Index of the factor of that name, or -1.
  int find_factor(std::string_view name) const;
  bool operator==(const ShardingRule&) const = default;

  /// Factors are the letters: "bsh,hf->bsf". Each operand is linear by itself when `linear_in_each`.
  /// Letters in `fixed` may not be split (the normalised dimension of a norm).
  static ShardingRule einsum(std::string_view formula, std::string_view fixed = "");
  ShardingRule& linear_in_each(std::span<const int> operand_indices);
  ShardingRule& linear_jointly(std::vector<int> operand_indices);
};

/// "b: 0@0 1@- -> 0@0; ..." for documentation: one line a factor.
std::string to_string(const ShardingRule& rule);

/// What a node does on one mesh axis.
struct Strategy {
  enum class Kind : uint8_t { kReplicate, kFactor, kLinear };
  Kind kind = Kind::kReplicate;
  /// Factor or linear group, by index into the rule.
  int index = -1;
  /// The factor is split in whole multiples of this many of its elements (a projection whose columns are later grouped
  /// into heads).
  int64_t unit = 1;

  static Strategy replicate() { return {}; }
  static Strategy factor(int i, int64_t unit = 1) { return {Kind::kFactor, i, unit}; }
  static Strategy linear(int i) { return {Kind::kLinear, i, 1}; }
  bool splits(int factor_index) const { return kind == Kind::kFactor && index == factor_index; }
  auto operator<=>(const Strategy&) const = default;
};

/// Placement of operand / result `i` on an axis where the node follows `strategy`.
Placement operand_placement(const ShardingRule& rule, Strategy strategy, size_t operand);
Placement result_placement(const ShardingRule& rule, Strategy strategy, size_t result);

/// Every strategy of a rule on one axis: replicate, one per factor, one per linear group.
std::vector<Strategy> all_strategies(const ShardingRule& rule);

/// Placements of all operands and results of a node that follows strategies[i] on mesh axis i.
struct NodeSharding {
  std::vector<TensorSharding> operands;
  std::vector<TensorSharding> results;
  bool operator==(const NodeSharding&) const = default;
};
/// `operand_shapes` and `result_shapes` are global; the shardings returned are canonical().
NodeSharding node_sharding(const ShardingRule& rule, std::span<const Strategy> strategies,
                           std::span<const Shape> operand_shapes, std::span<const Shape> result_shapes,
                           const DeviceMesh& mesh);

/// Why these strategies cannot be followed (a factor smaller than its axes, an order of axes), or nullopt.
std::optional<std::string> why_illegal(const ShardingRule& rule, std::span<const Strategy> strategies,
                                       std::span<const Shape> operand_shapes, std::span<const Shape> result_shapes,
                                       const DeviceMesh& mesh);

/// The strategies (one an axis) that give exactly these placements, or nullopt when the rule allows none. This is what
/// verify_graph asks of every node.
std::optional<std::vector<Strategy>> find_strategies(const ShardingRule& rule, const NodeSharding& sharding,
                                                     std::span<const Shape> operand_shapes,
                                                     std::span<const Shape> result_shapes, const DeviceMesh& mesh);

}  // namespace tpc

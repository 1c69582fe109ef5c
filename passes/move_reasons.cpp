#include "passes/move_reasons.h"

#include <fmt/format.h>

#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

/// Between who made the placement and who wants the other.
constexpr std::string_view kBetween = "; ";

std::string wanted_by(const Node& user) {
  if (user.op == OpKind::kUpdate) return "the parameter at rest";
  if (user.op == OpKind::kOutput) return fmt::format("output \"{}\"", user.attributes.get_string("name"));
  return fmt::format("\"{}\" ({})", user.layer, op_def(user.op).name);
}

/// "the gradient of "block0.fc1.weight"", or the layer that the user knows.
std::string subject(const Value& value, const Node& producer) {
  std::string_view primal = differentiated_name(value.name);
  if (!primal.empty()) return fmt::format("the gradient of \"{}\"", primal);
  return fmt::format("{}\"{}\"", producer.phase == Phase::kBackward ? "a gradient made by " : "", producer.layer);
}

/// "split by batch over dp, a partial sum over tp".
std::string in_words(const Graph& graph, const DimensionNames& names, ValueId value, const TensorSharding& sharding) {
  std::string text;
  for (size_t axis = 0; axis < sharding.placements.size(); ++axis) {
    const Placement& placement = sharding.placements[axis];
    if (placement.is_replicate()) continue;
    std::string lies = placement.is_shard() ? "split by " + names.name(graph, value, placement.dim) : "a partial sum";
    text += fmt::format("{}{} over {}", text.empty() ? "" : ", ", lies, graph.mesh.axes()[axis].name);
  }
  return text.empty() ? "whole" : text;
}

/// What changes between two placements, on the axes where they differ.
struct Change {
  bool sums = false;
  bool maximum = false;
  bool splits = false;   ///< something ends up split
  bool gathers = false;  ///< something split ends up whole
  bool only_exchanges = true;
  std::string split_before;
  std::string split_after;

  Change(const Graph& graph, const DimensionNames& names, ValueId value, const TensorSharding& from,
         const TensorSharding& to) {
    for (size_t axis = 0; axis < to.placements.size(); ++axis) {
      const Placement& before = from.placements[axis];
      const Placement& after = to.placements[axis];
      if (before == after) continue;
      sums = sums || (before.is_partial() && !after.is_partial());
      maximum = maximum || (before.is_partial() && before.reduce == ReduceOp::kMax);
      splits = splits || after.is_shard();
      gathers = gathers || (before.is_shard() && after.is_replicate());
      only_exchanges = only_exchanges && before.is_shard() && after.is_shard();
      if (before.is_shard()) split_before = names.name(graph, value, before.dim);
      if (after.is_shard()) split_after = names.name(graph, value, after.dim);
    }
  }
};

}  // namespace

std::string move_reason(const Graph& graph, const DimensionNames& names, const WantedMove& wanted) {
  const Value& value = graph.value(wanted.value);
  const Node& producer = wanted.producer;
  Change change(graph, names, wanted.value, wanted.from, wanted.to);
  std::string user = wanted_by(wanted.user);
  if (change.maximum) {
    return fmt::format("each rank has the maximum of its block only{}{} needs the largest of all", kBetween, user);
  }
  bool norm = producer.op == OpKind::kSumSquares || producer.op == OpKind::kAdd;
  if (change.sums && norm && producer.phase == Phase::kOptimizer)
    return fmt::format("each rank has the squares of its own gradients{}the norm needs all", kBetween);
  if (change.sums) {
    return fmt::format("each rank holds a part of the sum that is {}{}{} needs {}", subject(value, producer), kBetween,
                       user, change.splits ? "its block of the whole" : "the whole");
  }
  // What an earlier move left is not the maker's doing.
  std::string left = fmt::format("\"{}\" leaves it", producer.layer);
  if (wanted.from != value.sharding) left = fmt::format("{} lies", subject(value, producer));
  if (is_leaf(producer.op)) left = fmt::format("\"{}\" rests", value.name);
  if (change.gathers && !change.splits) {
    return fmt::format("{} split by {}{}{} needs it whole", left, change.split_before, kBetween, user);
  }
  if (change.only_exchanges && change.split_before != change.split_after) {
    return fmt::format("{} split by {}{}{} needs it split by {}", left, change.split_before, kBetween, user,
                       change.split_after);
  }
  return fmt::format("{} {}{}{} needs it {}", left, in_words(graph, names, wanted.value, wanted.from), kBetween, user,
                     in_words(graph, names, wanted.value, wanted.to));
}

std::string part_reason(const Graph& graph, const DimensionNames& names, ValueId value, const std::vector<Move>& path,
                        size_t index, const std::string& whole) {
  const Move& move = path[index];
  if (path.size() == 1 || !communicates(move.kind)) return whole;
  size_t between = whole.find(kBetween);
  std::string need = between == std::string::npos ? whole : whole.substr(between + kBetween.size());
  if (move.kind == MoveKind::kAllReduce || move.kind == MoveKind::kReduceScatter) {
    bool was_sum = path[0].from.has_partial();
    return was_sum ? whole : fmt::format("each rank holds its block among zeros{}{}", kBetween, need);
  }
  Change change(graph, names, value, move.from, move.to);
  std::string split = change.only_exchanges
                          ? fmt::format("split by {}, to be split by {}", change.split_before, change.split_after)
                          : "split by " + change.split_before;
  if (index == 0) return fmt::format("it comes {}{}{}", split, kBetween, need);
  return fmt::format("{} before leaves it {}{}{}", to_string(path[index - 1].kind), split, kBetween, need);
}

}  // namespace tpc

#include "passes/strategies/search_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"
#include "passes/strategies/annotations.h"
#include "passes/strategies/cast_leaves.h"

namespace tpc {
namespace {

/// Units of one dimension that are told apart at most.
constexpr size_t kMaxUnits = 4;
/// Of one node on all axes.
constexpr size_t kMostWays = 4000;
constexpr size_t kMostFreeAxes = 3;

int64_t tensor_parallel_ranks(const DeviceMesh& mesh) {
  int64_t ranks = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    if (user_axis(axis.name) == "tp") ranks *= axis.size;
  }
  return ranks;
}

bool is_scalar_node(const RuledNode& ruled) {
  auto is_scalar = [](const Shape& shape) { return shape.empty(); };
  return std::all_of(ruled.operand_shapes.begin(), ruled.operand_shapes.end(), is_scalar) &&
         std::all_of(ruled.result_shapes.begin(), ruled.result_shapes.end(), is_scalar);
}

}  // namespace

void refuse_too_many_choices() {
  throw UserError(SourceLoc{},
                  "the choices of this model on this mesh are too many for an exact search; forbid some splits "
                  "with --no-split, or ask for fewer of them: no --free-axes, fewer --sub-axes");
}

SearchSpace::SearchSpace(const Graph& graph, const NodeRules& rules, const SearchOptions& options)
    : graph_(graph),
      rules_(rules),
      options_(options),
      classes_(graph, rules),
      shared_(graph, rules, classes_, tensor_parallel_ranks(graph.mesh)) {
  // Sub-axes that do the same keep the choices few; free ones multiply them.
  bool is_free = options.free_axes || !options.sub_axes.empty();
  if (is_free && graph.mesh.num_axes() > kMostFreeAxes) refuse_too_many_choices();
  for (const std::string& name : options.no_split) {
    if (classes_.forbid(name)) continue;
    std::vector<std::string> known = classes_.names();
    std::string nearest = nearest_word(name, known);
    throw UserError(
        SourceLoc{graph.source_file, ""},
        fmt::format("--no-split {}: the model has no dimension of that name{}; it has {}", name,
                    nearest.empty() ? "" : fmt::format(", did you mean \"{}\"?", nearest), fmt::join(known, ", ")));
  }
  find_roles();
  find_units();
  find_choices();
  find_leaves();
}

void SearchSpace::find_roles() {
  bool has_data_axis = false;
  for (const MeshAxis& axis : graph_.mesh.axes()) has_data_axis = has_data_axis || user_axis(axis.name) == "dp";
  for (const MeshAxis& axis : graph_.mesh.axes()) {
    Role role = has_data_axis ? Role::kTensor : Role::kFree;
    if (user_axis(axis.name) == "dp") role = Role::kData;
    roles_.push_back(options_.free_axes ? Role::kFree : role);
  }
}

const std::vector<int64_t>& SearchSpace::units_of(ValueId value, int64_t dim) const {
  static const std::vector<int64_t> kNone;
  auto found = units_.find({value, dim});
  return found == units_.end() ? kNone : found->second;
}

/// An op that works in units (heads by kv group) makes its neighbours' dimensions be split in units too.
void SearchSpace::find_units() {
  int64_t world = graph_.mesh.world_size();
  bool grew = false;
  auto add = [&](ValueId value, int64_t dim, int64_t unit) {
    int64_t size = graph_.value(value).type.shape[static_cast<size_t>(dim)];
    // Blocks of an even split are whole units anyway.
    if (unit == 1 || size % unit != 0 || size % (unit * world) == 0) return;
    std::vector<int64_t>& known = units_[{value, dim}];
    if (known.size() == kMaxUnits || std::find(known.begin(), known.end(), unit) != known.end()) return;
    known.push_back(unit);
    grew = true;
  };
  auto spread = [&](size_t n) {
    const Node& node = graph_.nodes[n];
    for (const Factor& factor : rules_[n].rule.factors) {
      std::vector<int64_t> factor_units{1};
      auto collect = [&](ValueId value, const std::optional<Factor::Use>& use) {
        if (!use) return;
        for (int64_t unit : units_of(value, use->dim)) {
          if (unit % use->unit == 0) factor_units.push_back(unit / use->unit);
        }
      };
      auto give = [&](ValueId value, const std::optional<Factor::Use>& use) {
        if (!use) return;
        for (int64_t unit : factor_units) add(value, use->dim, unit * use->unit);
      };
      for (size_t i = 0; i < node.operands.size(); ++i) collect(node.operands[i], factor.operands[i]);
      for (size_t i = 0; i < node.results.size(); ++i) collect(node.results[i], factor.results[i]);
      for (size_t i = 0; i < node.operands.size(); ++i) give(node.operands[i], factor.operands[i]);
      for (size_t i = 0; i < node.results.size(); ++i) give(node.results[i], factor.results[i]);
    }
  };
  do {
    grew = false;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) spread(n);
    // Backwards only where there is something to spread.
    for (size_t n = units_.empty() ? 0 : graph_.nodes.size(); n > 0; --n) spread(n - 1);
  } while (grew);
}

bool SearchSpace::may_split(ValueId value, size_t dim, Role role) const {
  if (classes_.is_forbidden(value, dim)) return false;
  switch (role) {
    case Role::kFree:
      return true;
    case Role::kData:
      return classes_.is_batch(value, dim) || !classes_.has_batch(value);
    case Role::kTensor:
      return !classes_.is_batch(value, dim);
  }
  TPC_UNREACHABLE("role {}", static_cast<int>(role));
}

bool SearchSpace::fits_role(const Node& node, const RuledNode& ruled, Strategy strategy, size_t axis,
                            bool is_pinned) const {
  if (strategy.kind != Strategy::Kind::kFactor) return true;
  Role role = is_pinned ? Role::kFree : roles_[axis];
  const Factor& factor = ruled.rule.factors[static_cast<size_t>(strategy.index)];
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto& use = factor.operands[i];
    if (use && !may_split(node.operands[i], static_cast<size_t>(use->dim), role)) return false;
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    const auto& use = factor.results[i];
    if (use && !may_split(node.results[i], static_cast<size_t>(use->dim), role)) return false;
  }
  return true;
}

std::vector<SearchSpace::Split> SearchSpace::splits(size_t n, size_t axis) const {
  const Node& node = graph_.nodes[n];
  std::vector<Split> found;
  for (size_t f = 0; f < rules_[n].rule.factors.size(); ++f) {
    if (!fits_role(node, rules_[n], Strategy::factor(static_cast<int>(f)), axis, /*is_pinned=*/false)) continue;
    const Factor& factor = rules_[n].rule.factors[f];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const std::optional<Factor::Use>& use = factor.operands[i];
      if (!use) continue;
      const Value& value = graph_.value(node.operands[i]);
      found.push_back({dim_name(value, use->dim), value.type.shape[static_cast<size_t>(use->dim)] / use->unit});
      break;
    }
  }
  return found;
}

std::vector<Strategy> SearchSpace::ways_on_axis(size_t n, size_t axis) const {
  const Node& node = graph_.nodes[n];
  const RuledNode& ruled = rules_[n];
  bool is_pinned = !node.annotation.empty() && node.phase == Phase::kForward && is_tensor_parallel(axis);
  bool shares_work = op_def(node.op).heavy && !shared_.may_repeat(n) && !is_pinned;
  std::vector<Strategy> ways;
  auto offer = [&](Strategy way) {
    if (is_pinned && !agrees_with_annotation(node, ruled.rule, way)) return;
    // A pin comes before the roles of axes, but not before what nothing may be split by.
    if (fits_role(node, ruled, way, axis, is_pinned) && std::find(ways.begin(), ways.end(), way) == ways.end())
      ways.push_back(way);
  };
  for (Strategy way : all_strategies(ruled.rule)) {
    if (way.kind != Strategy::Kind::kFactor) {
      if (!shares_work) offer(way);
      continue;
    }
    offer(way);
    const Factor& factor = ruled.rule.factors[static_cast<size_t>(way.index)];
    auto offer_units = [&](ValueId value, const std::optional<Factor::Use>& use) {
      if (!use) return;
      for (int64_t unit : units_of(value, use->dim)) {
        if (unit % use->unit == 0) offer(Strategy::factor(way.index, unit / use->unit));
      }
    };
    for (size_t i = 0; i < node.operands.size(); ++i) offer_units(node.operands[i], factor.operands[i]);
    for (size_t i = 0; i < node.results.size(); ++i) offer_units(node.results[i], factor.results[i]);
  }
  return ways;
}

bool SearchSpace::continues_axis(size_t axis) const {
  const std::vector<MeshAxis>& axes = graph_.mesh.axes();
  return axis > 0 && options_.sub_axes.empty() && !options_.free_axes &&
         user_axis(axes[axis].name) == user_axis(axes[axis - 1].name);
}

/// `chosen` are the strategies of the axes before the one that `next` is for.
bool SearchSpace::agree_on_sub_axes(const ShardingRule& rule, bool may_share, const std::vector<Strategy>& chosen,
                                    Strategy next) const {
  if (!continues_axis(chosen.size())) return true;
  Strategy outer = chosen.back();
  if (outer.kind == next.kind && outer.index == next.index) return true;
  if (outer.kind != Strategy::Kind::kFactor) return false;
  if (next.kind == Strategy::Kind::kFactor) {
    return rule.factors[static_cast<size_t>(next.index)].inside == outer.index;
  }
  return may_share;
}

bool SearchSpace::is_norm_sum(size_t n) const {
  return graph_.nodes[n].phase == Phase::kOptimizer && rules_[n].has_rule && is_scalar_node(rules_[n]);
}

/// The squares of all gradients are added up as partial sums, since R and S become P for nothing, and completed once.
/// By data parallelism alone gradients can be whole, and so can their norm.
std::vector<std::vector<Strategy>> SearchSpace::norm_ways(size_t n) const {
  const RuledNode& ruled = rules_[n];
  Strategy sum = Strategy::replicate();
  for (size_t g = 0; g < ruled.rule.linear.size(); ++g) {
    bool covers_all = ruled.rule.linear[g].operands.size() == ruled.operand_shapes.size();
    if (covers_all && ruled.operand_shapes.size() > 1) sum = Strategy::linear(static_cast<int>(g));
  }
  std::vector<std::vector<Strategy>> ways{std::vector<Strategy>(graph_.mesh.num_axes(), sum)};
  if (sum == Strategy::replicate() || graph_.mesh.num_axes() == 0) return ways;
  bool is_one_axis = user_axis(graph_.mesh.axes().front().name) == user_axis(graph_.mesh.axes().back().name);
  std::vector<Strategy> whole = ways[0];
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    if (is_one_axis || !is_tensor_parallel(axis)) whole[axis] = Strategy::replicate();
  }
  if (whole != ways[0]) ways.push_back(std::move(whole));
  return ways;
}

NodeChoices SearchSpace::make_choices(size_t n) const {
  const RuledNode& ruled = rules_[n];
  NodeChoices choices;
  size_t num_axes = graph_.mesh.num_axes();
  std::vector<std::vector<Strategy>> partial{{}};
  if (is_norm_sum(n)) {
    partial = norm_ways(n);
  } else {
    for (size_t axis = 0; axis < num_axes; ++axis) {
      std::vector<Strategy> ways = ways_on_axis(n, axis);
      std::vector<std::vector<Strategy>> longer;
      for (const std::vector<Strategy>& chosen : partial) {
        for (Strategy way : ways) {
          if (!agree_on_sub_axes(ruled.rule, shared_.may_share(n), chosen, way)) continue;
          longer.push_back(chosen);
          longer.back().push_back(way);
          if (longer.size() > kMostWays) refuse_too_many_choices();
        }
      }
      partial = std::move(longer);
    }
  }
  std::set<std::pair<std::vector<TensorSharding>, std::vector<TensorSharding>>> seen;
  for (std::vector<Strategy>& strategies : partial) {
    if (why_illegal(ruled.rule, strategies, ruled.operand_shapes, ruled.result_shapes, graph_.mesh)) continue;
    NodeSharding sharding =
        node_sharding(ruled.rule, strategies, ruled.operand_shapes, ruled.result_shapes, graph_.mesh);
    if (!seen.emplace(sharding.operands, sharding.results).second) continue;
    choices.strategies.push_back(std::move(strategies));
    choices.shardings.push_back(std::move(sharding));
  }
  return choices;
}

void SearchSpace::append_flags(std::string& key, ValueId value) const {
  size_t rank = graph_.value(value).type.shape.size();
  for (size_t dim = 0; dim < rank; ++dim) {
    key +=
        static_cast<char>('0' + (classes_.is_batch(value, dim) ? 1 : 0) + (classes_.is_forbidden(value, dim) ? 2 : 0));
    for (int64_t unit : units_of(value, static_cast<int64_t>(dim))) key += ":" + std::to_string(unit);
  }
  key += '/';
}

/// Everything that the choices of a node depend on.
std::string SearchSpace::node_key(size_t n) const {
  const Node& node = graph_.nodes[n];
  std::string key = std::to_string(rules_.kind(n)) + (node.phase == Phase::kOptimizer ? "o" : "") +
                    (shared_.may_share(n) ? "s" : "") + (shared_.may_repeat(n) ? "r" : "") + ' ';
  for (ValueId operand : node.operands) append_flags(key, operand);
  for (ValueId result : node.results) append_flags(key, result);
  if (!node.annotation.empty()) key += node.annotation.pointer;
  return key;
}

void SearchSpace::find_choices() {
  std::unordered_map<std::string, int> known;
  kind_of_node_.assign(graph_.nodes.size(), -1);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    if (!rules_[n].has_rule) continue;
    auto [entry, is_new] = known.try_emplace(node_key(n), static_cast<int>(choices_.size()));
    if (is_new) {
      choices_.push_back(make_choices(n));
      if (choices_.back().strategies.empty()) empty_nodes_.push_back(n);
    }
    kind_of_node_[n] = entry->second;
  }
}

std::vector<TensorSharding> SearchSpace::make_at_rest(ValueId leaf, const std::vector<const Node*>& pinned_by) const {
  const Shape& shape = graph_.value(leaf).type.shape;
  std::vector<TensorSharding> partial{TensorSharding{}};
  for (size_t axis = 0; axis < graph_.mesh.num_axes(); ++axis) {
    std::vector<Placement> ways{Placement::replicate()};
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (!may_split(leaf, dim, roles_[axis])) continue;
      auto along = static_cast<int64_t>(dim);
      ways.push_back(Placement::shard(along));
      for (int64_t unit : units_of(leaf, along)) ways.push_back(Placement::shard(along, unit));
    }
    if (is_tensor_parallel(axis)) {
      for (const Node* node : pinned_by) {
        for (const auto& [use, placement] : node->annotation.uses) {
          if (use != "weight") continue;
          std::erase_if(ways, [&, pinned = placement](const Placement& way) {
            return way.kind != pinned.kind || way.dim != pinned.dim;
          });
        }
      }
    }
    std::vector<TensorSharding> longer;
    bool continues = continues_axis(axis);
    for (const TensorSharding& chosen : partial) {
      for (const Placement& way : ways) {
        const Placement* outer = continues ? &chosen.placements.back() : nullptr;
        bool same = outer == nullptr || (outer->kind == way.kind && outer->dim == way.dim);
        bool shared = outer != nullptr && outer->is_shard() && way.is_replicate() && shared_.is_shared(leaf);
        if (!same && !shared) continue;
        longer.push_back(chosen);
        longer.back().placements.push_back(way);
      }
    }
    partial = std::move(longer);
  }
  std::vector<TensorSharding> ways;
  for (TensorSharding& sharding : partial) {
    if (why_illegal(shape, sharding, graph_.mesh)) continue;
    sharding = canonical(shape, std::move(sharding), graph_.mesh);
    if (std::find(ways.begin(), ways.end(), sharding) == ways.end()) ways.push_back(std::move(sharding));
  }
  return ways;
}

void SearchSpace::find_leaves() {
  kind_of_leaf_.assign(graph_.values.size(), -1);
  std::map<ValueId, std::vector<const Node*>> pinned_by;
  std::vector<int> made_by = producers(graph_);
  for (const Node& node : graph_.nodes) {
    if (node.phase == Phase::kForward && !node.annotation.empty() && node.operands.size() >= 2)
      pinned_by[behind_cast(graph_, made_by, node.operands[1])].push_back(&node);
  }
  std::unordered_map<std::string, int> known;
  for (const Node& node : graph_.nodes) {
    if (node.op != OpKind::kInput && node.op != OpKind::kParameter) continue;
    ValueId leaf = node.results[0];
    std::string key = to_string(graph_.value(leaf).type.shape) + (shared_.is_shared(leaf) ? "s" : "");
    append_flags(key, leaf);
    const std::vector<const Node*>& pins = pinned_by[leaf];
    for (const Node* pin : pins) key += pin->annotation.pointer;
    auto [entry, is_new] = known.try_emplace(key, static_cast<int>(at_rest_.size()));
    if (is_new) {
      at_rest_.push_back(make_at_rest(leaf, pins));
      if (at_rest_.back().empty()) empty_leaves_.push_back(leaf);
    }
    kind_of_leaf_[leaf.position()] = entry->second;
  }
}

}  // namespace tpc

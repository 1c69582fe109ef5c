#include "passes/insert_redistributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "compiler/core/check.h"
#include "compiler/sharding/conversion_graph.h"
#include "passes/move_reasons.h"

namespace tpc {
namespace {

/// Uses of one value that share their conversions, and the forms that these start from.
struct UseGroup {
  /// Forms wanted, by the first node that wants each; `by` is a node of the source.
  struct Target {
    TensorSharding sharding;
    int by = 0;
    bool is_kept = false;
  };
  std::vector<TensorSharding> from;
  std::vector<Target> targets;
  /// Forms that serve the targets; empty: these themselves.
  std::vector<TensorSharding> via;
  bool starts_from(const TensorSharding& form) const { return std::find(from.begin(), from.end(), form) != from.end(); }
  /// Edges of the trees: to each form from the form that it is made of. Worked out at the first use.
  std::map<TensorSharding, TensorSharding> made_of;
  bool is_planned = false;
  /// The values that hold the forms made so far.
  std::map<TensorSharding, ValueId> holds;
};

class RedistributeInserter {
 public:
  RedistributeInserter(Graph& graph, const CompileOptions& options)
      : graph_(graph),
        dim_names_(graph),
        graphs_(graph.mesh, options.price, options.detours()),
        source_(std::move(graph.nodes)),
        producer_(graph.values.size(), -1) {
    graph_.nodes.clear();
    graph_.nodes.reserve(source_.size() + source_.size() / 4);
    for (size_t i = 0; i < source_.size(); ++i) {
      for (ValueId result : source_[i].results) producer_[result.position()] = static_cast<int>(i);
    }
    group_uses();
  }

  void run() {
    for (size_t i = 0; i < source_.size(); ++i) {
      Node node = source_[i];  // `source_` keeps layer and origin for the reasons
      for (size_t operand = 0; operand < node.operands.size(); ++operand) {
        ValueId value = node.operands[operand];
        const TensorSharding& wanted = node.operand_shardings[operand];
        UseGroup& group = group_of(value, node);
        if (wanted == graph_.value(value).sharding && group.starts_from(wanted)) continue;
        TPC_CHECK(node.op != OpKind::kUpdate || operand == 1, "the target of an update is converted");
        node.operands[operand] = form(value, group, wanted, node, node.phase);
      }
      graph_.nodes.push_back(std::move(node));
      for (const auto& [value, kept] : kept_after_[i]) keep(value, kept, static_cast<int>(i));
      for (ValueId value : source_[i].results) reduce_at_once(value, source_[i]);
    }
    for (Value& value : graph_.values) {
      value.kept.clear();
      value.via = {};
    }
  }

 private:
  /// What a kept value offers the backward pass stands apart from what forward makes of it.
  enum GroupKind { kFromMade = 0, kFromKept = 1, kFromRest = 2 };

  GroupKind kind_of(ValueId value, const Node& user) const {
    if (graph_.value(value).kept.empty() || user.phase == Phase::kForward) return kFromMade;
    return user.phase == Phase::kBackward ? kFromKept : kFromRest;
  }

  /// nullptr when no use is of that kind.
  UseGroup* find_group(ValueId value, GroupKind kind) { return groups_[value.position() * 3 + kind].get(); }
  UseGroup& group_of(ValueId value, const Node& user) { return *find_group(value, kind_of(value, user)); }

  UseGroup& start_group(ValueId value, GroupKind kind) {
    std::unique_ptr<UseGroup>& entry = groups_[value.position() * 3 + kind];
    if (entry == nullptr) {
      const Value& source = graph_.value(value);
      entry = std::make_unique<UseGroup>();
      UseGroup& group = *entry;
      group.from = {source.sharding};
      // A leaf is still there in backward; of anything else only what was kept.
      bool is_leaf = tpc::is_leaf(source_[static_cast<size_t>(producer_[value.position()])].op);
      if (kind == kFromKept && !is_leaf) group.from.clear();
      for (const TensorSharding& form : source.kept) {
        if (kind == kFromKept && !group.starts_from(form)) group.from.push_back(form);
      }
      if (group.starts_from(source.sharding)) group.holds[source.sharding] = value;
      Phase made = source_[static_cast<size_t>(producer_[value.position()])].phase;
      Phase phase = kind == kFromMade ? made : kind == kFromKept ? Phase::kBackward : Phase::kOptimizer;
      group.via = source.via[static_cast<size_t>(phase)];
    }
    return *entry;
  }

  void group_uses() {
    groups_.resize(graph_.values.size() * 3);
    kept_after_.resize(source_.size());
    std::vector<int> last_forward_use(graph_.values.size(), -1);
    for (size_t i = 0; i < source_.size(); ++i) {
      const Node& node = source_[i];
      for (size_t operand = 0; operand < node.operands.size(); ++operand) {
        ValueId value = node.operands[operand];
        UseGroup& group = start_group(value, kind_of(value, node));
        want(group, node.operand_shardings[operand], static_cast<int>(i));
        if (node.phase == Phase::kForward) last_forward_use[value.position()] = static_cast<int>(i);
      }
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      ValueId id{static_cast<int32_t>(v)};
      const UseGroup* kept = find_group(id, kFromKept);
      if (value.kept.empty() || kept == nullptr) continue;
      int after = last_forward_use[v] < 0 ? producer_[v] : last_forward_use[v];
      for (const TensorSharding& form : value.kept) {
        if (form == value.sharding) continue;
        want(start_group(id, kFromMade), form, kept->targets.front().by, /*is_kept=*/true);
        kept_after_[static_cast<size_t>(after)].emplace_back(id, form);
      }
    }
  }

  static void want(UseGroup& group, const TensorSharding& sharding, int by, bool is_kept = false) {
    auto known = std::find_if(group.targets.begin(), group.targets.end(),
                              [&](const UseGroup::Target& target) { return target.sharding == sharding; });
    if (known == group.targets.end()) {
      group.targets.push_back({sharding, by, is_kept});
    } else {
      known->is_kept = known->is_kept || is_kept;
    }
  }

  void plan(ValueId value, UseGroup& group) {
    if (group.is_planned) return;
    group.is_planned = true;
    std::vector<TensorSharding> targets = group.via;
    for (const UseGroup::Target& target : group.targets) {
      bool is_made_first = group.via.empty() || target.is_kept;
      if (is_made_first && std::find(targets.begin(), targets.end(), target.sharding) == targets.end())
        targets.push_back(target.sharding);
    }
    std::sort(targets.begin(), targets.end());
    const TensorType& type = graph_.value(value).type;
    auto [known, is_new] = trees_.try_emplace({type.shape, type.dtype, group.from, targets});
    if (is_new) {
      ConversionGraph& conversions = graphs_.of(type);
      std::vector<ConversionGraph::State> from;
      for (const TensorSharding& form : group.from) from.push_back(conversions.add(form));
      std::vector<ConversionGraph::State> states;
      for (const TensorSharding& target : targets) states.push_back(conversions.add(target));
      for (auto [before, after] : conversions.provide(from, states)) {
        known->second.emplace(conversions.sharding(after), conversions.sharding(before));
      }
    }
    group.made_of = known->second;
    if (!group.via.empty()) serve_from_made(type, group);
  }

  /// What is wanted but not made first comes from the nearest form that is: at no price.
  void serve_from_made(const TensorType& type, UseGroup& group) {
    std::vector<TensorSharding> made = group.from;
    for (const auto& [after, before] : group.made_of) made.push_back(after);
    ConversionGraph& conversions = graphs_.of(type);
    for (const UseGroup::Target& target : group.targets) {
      const TensorSharding& wanted = target.sharding;
      if (std::find(made.begin(), made.end(), wanted) != made.end()) continue;
      const TensorSharding* nearest = nullptr;
      ConversionCost least;
      for (const TensorSharding& form : made) {
        ConversionGraph::State from = conversions.add(form);
        ConversionCost cost = conversions.cost(from, conversions.add(wanted));
        if (nearest != nullptr && least <= cost) continue;
        nearest = &form;
        least = cost;
      }
      group.made_of.emplace(wanted, *nearest);
    }
  }

  /// The value that holds this form, made now (with what leads to it) if it does not exist.
  ValueId form(ValueId value, UseGroup& group, const TensorSharding& wanted, const Node& user, Phase phase) {
    auto held = group.holds.find(wanted);
    if (held != group.holds.end()) return held->second;
    plan(value, group);
    const TensorSharding before = group.made_of.at(wanted);
    ValueId from = form(value, group, before, user, phase);
    Node move;
    move.op = OpKind::kRedistribute;
    move.layer = user.layer;
    move.origin = user.origin;
    move.phase = phase;
    move.operands = {from};
    move.operand_shardings = {before};
    const Node& made_by = source_[static_cast<size_t>(producer_[value.position()])];
    move.why = move_reason(graph_, dim_names_, {value, made_by, before, user, wanted});
    std::string name = fmt::format("{}@{}", graph_.value(value).name, to_string(wanted));
    // Gathered for forward and gathered again for backward.
    if (!names_.insert(name).second) name += phase == Phase::kForward ? "" : "~" + std::string(to_string(phase));
    names_.insert(name);
    ValueId result = add_value(graph_, std::move(name), graph_.value(value).type);
    graph_.value(result).sharding = wanted;
    graph_.value(result).dim_names = graph_.value(value).dim_names;
    move.results = {result};
    graph_.nodes.push_back(std::move(move));
    group.holds[wanted] = result;
    return result;
  }

  /// What backward needs is made before forward frees the rest.
  void keep(ValueId value, const TensorSharding& wanted, int after) {
    UseGroup& made = *find_group(value, kFromMade);
    UseGroup& kept = *find_group(value, kFromKept);
    const Node& user = source_[static_cast<size_t>(kept.targets.front().by)];
    kept.holds[wanted] = form(value, made, wanted, user, source_[static_cast<size_t>(after)].phase);
  }

  /// A gradient is completed where it is made, unless that takes more memory: the optimizer runs after all of backward.
  void reduce_at_once(ValueId value, const Node& producer) {
    if (producer.phase != Phase::kBackward) return;
    UseGroup* found = find_group(value, kFromMade);
    if (found == nullptr) return;
    UseGroup& group = *found;
    auto local_size = [&](const TensorSharding& sharding) {
      return fullest_bytes(graph_.value(value).type, sharding, graph_.mesh);
    };
    for (const UseGroup::Target& target : std::vector<UseGroup::Target>(group.targets)) {
      const Node& user = source_[static_cast<size_t>(target.by)];
      if (user.phase != Phase::kOptimizer || local_size(target.sharding) > local_size(graph_.value(value).sharding))
        continue;
      form(value, group, target.sharding, user, producer.phase);
    }
  }

  /// Shape, element, the forms there are, those wanted.
  using TreeKey = std::tuple<Shape, DType, std::vector<TensorSharding>, std::vector<TensorSharding>>;

  Graph& graph_;
  DimensionNames dim_names_;
  ConversionGraphs graphs_;
  std::vector<Node> source_;
  std::vector<int> producer_;
  /// Three a value of the source, by GroupKind.
  std::vector<std::unique_ptr<UseGroup>> groups_;
  /// Per node of the source the kept forms that are made right after it.
  std::vector<std::vector<std::pair<ValueId, TensorSharding>>> kept_after_;
  std::map<TreeKey, std::map<TensorSharding, TensorSharding>> trees_;
  std::set<std::string> names_;
};

}  // namespace

Graph insert_redistributes(Graph graph, const PassContext& context) {
  RedistributeInserter(graph, context.options).run();
  return graph;
}

}  // namespace tpc

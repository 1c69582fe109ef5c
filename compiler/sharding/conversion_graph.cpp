// A step on one group of axes moves the local tensor, so the order of steps matters: hence shortest paths (sharding
// algebra), and steps as wide as the axes that change alike.
#include "compiler/sharding/conversion_graph.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "compiler/core/check.h"

namespace tpc {
namespace {

/// A dimension is put together and split at its innermost axes only: a block that a later axis split further is not
/// contiguous in the order of the earlier axis.
bool is_innermost(const TensorSharding& sharding, const std::vector<int64_t>& axes, int32_t dim) {
  for (size_t axis = static_cast<size_t>(axes[0]); axis < sharding.placements.size(); ++axis) {
    bool moving = std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
    if (!moving && sharding.placements[axis].is_shard_of(dim)) return false;
  }
  return true;
}

}  // namespace

ConversionGraph::ConversionGraph(TensorType type, const DeviceMesh& mesh, MovePrice price, Detours detours)
    : type_(std::move(type)), mesh_(mesh), price_(std::move(price)), detours_(detours) {
  for (size_t dim = 0; dim < type_.shape.size(); ++dim)
    placements_.push_back(Placement::shard(static_cast<int64_t>(dim)));
  whole_elements_ = (PlacementSet{1} << placements_.size()) - 1;
}

ConversionGraph::PlacementSet ConversionGraph::bit_of(const Placement& placement) const {
  auto found = std::find(placements_.begin(), placements_.end(), placement);
  return found == placements_.end() ? kUnnamed : PlacementSet{1} << (found - placements_.begin());
}

ConversionGraph::PlacementSet ConversionGraph::placements_of(const TensorSharding& sharding) const {
  PlacementSet set = 0;
  for (const Placement& placement : sharding.placements) {
    if (placement.is_shard()) set |= bit_of(placement);
  }
  return set;
}

ConversionGraph::State ConversionGraph::add(const TensorSharding& sharding) {
  bool is_new = false;
  for (const Placement& placement : sharding.placements) {
    if (!placement.is_shard()) continue;
    if (bit_of(placement) != kUnnamed) continue;
    TPC_CHECK(placements_.size() < 63, "too many placements of one tensor");
    placements_.push_back(placement);
    is_new = true;
  }
  State state = intern(sharding);
  if (!is_new) return state;
  // A placement more to split by, in units: what was found holds, since paths use units of their ends only, but steps
  // must be found anew, and states that canonical() made may have become nameable.
  reached_.clear();
  for (Node& node : states_) {
    node.steps.reset();
    node.placements = placements_of(node.sharding);
  }
  return state;
}

ConversionGraph::State ConversionGraph::intern(const TensorSharding& sharding) {
  auto [entry, is_new] = index_.try_emplace(sharding, static_cast<State>(states_.size()));
  if (!is_new) return entry->second;
  Node node;
  node.sharding = sharding;
  node.placements = placements_of(sharding);
  states_.push_back(std::move(node));
  return entry->second;
}

const std::vector<ConversionGraph::Step>& ConversionGraph::steps_from(State state) {
  if (!states_[position(state)].steps) {
    std::vector<Step> steps;
    size_t num_axes = mesh_.num_axes();
    for (uint32_t subset = 1; subset < (1U << num_axes); ++subset) {
      std::vector<int64_t> axes;
      for (size_t axis = 0; axis < num_axes; ++axis) {
        if ((subset >> axis) & 1U) axes.push_back(static_cast<int64_t>(axis));
      }
      add_steps(state, axes, steps);
    }
    states_[position(state)].steps = std::move(steps);
  }
  return *states_[position(state)].steps;
}

/// All axes of a move must share kind (and dimension), so that the group forms one contiguous order of blocks.
void ConversionGraph::add_steps(State state, const std::vector<int64_t>& axes, std::vector<Step>& steps) {
  const TensorSharding from = sharding(state);  // a copy: intern() may move the states
  const Placement& first = from.placements[static_cast<size_t>(axes[0])];
  for (int64_t axis : axes) {
    const Placement& other = from.placements[static_cast<size_t>(axis)];
    if (other.kind != first.kind || other.dim != first.dim || other.reduce != first.reduce) return;
  }
  if (first.is_shard() && !is_innermost(from, axes, first.dim)) return;
  auto add = [&](MoveKind kind, const Placement& target) {
    if (target.is_shard() && !is_innermost(from, axes, target.dim)) return;
    Move move{kind, axes, from, from};
    for (int64_t axis : axes) move.to.placements[static_cast<size_t>(axis)] = target;
    if (move.to == from || why_illegal(type_.shape, move.to, mesh_)) return;
    move.to = canonical(type_.shape, std::move(move.to), mesh_);
    Step step;
    step.to = intern(move.to);
    step.cost = {price_(move, type_.shape, byte_size(type_.dtype), mesh_), communicates(kind) ? 1 : 0, 1};
    if (target.is_shard()) step.splits_by = bit_of(target);
    step.move = std::move(move);
    steps.push_back(std::move(step));
  };
  switch (first.kind) {
    case Placement::Kind::kPartial:
      add(MoveKind::kAllReduce, Placement::replicate());
      for (size_t i = 0; i < placements_.size(); ++i) add(MoveKind::kReduceScatter, placements_[i]);
      break;
    case Placement::Kind::kReplicate:
      for (size_t i = 0; i < placements_.size(); ++i) add(MoveKind::kSlice, placements_[i]);
      if (is_float(type_.dtype)) add(MoveKind::kMask, Placement::partial());
      break;
    case Placement::Kind::kShard:
      add(MoveKind::kAllGather, Placement::replicate());
      for (size_t i = 0; i < placements_.size(); ++i) add(MoveKind::kAllToAll, placements_[i]);
      if (is_float(type_.dtype)) add(MoveKind::kZeroPad, Placement::partial());
      break;
  }
}

/// Only the target can want a sum.
bool ConversionGraph::makes_unwanted_partial(const Move& move, State to) const {
  if (move.kind != MoveKind::kMask && move.kind != MoveKind::kZeroPad) return false;
  return std::any_of(move.axes.begin(), move.axes.end(),
                     [&](int64_t axis) { return !sharding(to).placements[static_cast<size_t>(axis)].is_partial(); });
}

ConversionGraph::PlacementSet ConversionGraph::allowed_between(State from, State to) const {
  PlacementSet ends = states_[position(from)].placements | states_[position(to)].placements;
  return detours_ == Detours::kAny ? ends | whole_elements_ : ends;
}

std::vector<ConversionGraph::Reached> ConversionGraph::search(State from, PlacementSet allowed, State to) {
  std::vector<Reached> reached(states_.size());
  // Ordered by the sharding after the cost, so that ties do not depend on the order in which states were added.
  auto later = [&](const std::pair<ConversionCost, State>& a, const std::pair<ConversionCost, State>& b) {
    if (a.first != b.first) return b.first < a.first;
    return a.second != b.second && sharding(b.second) < sharding(a.second);
  };
  std::priority_queue<std::pair<ConversionCost, State>, std::vector<std::pair<ConversionCost, State>>, decltype(later)>
      open(later);
  reached[position(from)].cost = ConversionCost{};
  open.push({ConversionCost{}, from});
  while (!open.empty()) {
    auto [cost, state] = open.top();
    open.pop();
    if (state == to) break;
    if (*reached[position(state)].cost < cost) continue;  // reached for less meanwhile
    const std::vector<Step>& steps = steps_from(state);
    reached.resize(states_.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      if ((steps[i].splits_by & ~allowed) != 0) continue;
      if (detours_ == Detours::kNone && makes_unwanted_partial(steps[i].move, to)) continue;
      ConversionCost next = cost + steps[i].cost;
      Reached& target = reached[position(steps[i].to)];
      if (target.cost && *target.cost <= next) continue;
      target = {next, state, static_cast<int>(i)};
      open.push({next, steps[i].to});
    }
  }
  return reached;
}

ConversionCost ConversionGraph::cost(State from, State to) {
  if (from == to) return {};
  auto found = [&](const std::optional<ConversionCost>& cost) {
    if (!cost) {
      TPC_UNREACHABLE("no conversion from {} to {} of {} on {}", to_string(sharding(from)), to_string(sharding(to)),
                      to_string(type_), to_string(mesh_));
    }
    return *cost;
  };
  if (allowed_between(from, to) == whole_elements_ && detours_ == Detours::kAny) {
    auto [entry, is_new] = reached_.try_emplace(from);
    if (is_new) entry->second = search(from, whole_elements_, -1);
    // A state that was not there at that time cannot be reached.
    if (position(to) >= entry->second.size()) return found(std::nullopt);
    return found(entry->second[position(to)].cost);
  }
  uint64_t key = (static_cast<uint64_t>(from) << 32) | static_cast<uint32_t>(to);
  if (auto known = costs_.find(key); known != costs_.end()) return known->second;
  ConversionCost cost = found(search(from, allowed_between(from, to), to)[position(to)].cost);
  costs_.emplace(key, cost);
  return cost;
}

std::vector<Move> ConversionGraph::path(State from, State to) {
  std::vector<Move> moves;
  if (from == to) return moves;
  cost(from, to);  // says which conversion it is, if there is none
  std::vector<Reached> reached = search(from, allowed_between(from, to), to);
  for (State state = to; state != from; state = reached[position(state)].from) {
    const Reached& last = reached[position(state)];
    moves.push_back((*states_[position(last.from)].steps)[static_cast<size_t>(last.step)].move);
  }
  std::reverse(moves.begin(), moves.end());
  return moves;
}

/// `from` first, then the targets, then mixtures of their placements axis by axis.
std::vector<ConversionGraph::State> ConversionGraph::branching_states(State from, std::span<const State> targets) {
  std::vector<State> states{from};
  states.insert(states.end(), targets.begin(), targets.end());
  std::vector<TensorSharding> mixtures{TensorSharding{}};
  for (size_t axis = 0; axis < mesh_.num_axes(); ++axis) {
    std::vector<Placement> choices{Placement::replicate()};
    auto offer = [&](const Placement& placement) {
      if (std::find(choices.begin(), choices.end(), placement) == choices.end()) choices.push_back(placement);
    };
    for (State target : targets) offer(sharding(target).placements[axis]);
    offer(sharding(from).placements[axis]);
    std::vector<TensorSharding> longer;
    for (const TensorSharding& mixture : mixtures) {
      for (const Placement& choice : choices) {
        longer.push_back(mixture);
        longer.back().placements.push_back(choice);
      }
    }
    mixtures = std::move(longer);
  }
  for (TensorSharding& mixture : mixtures) {
    if (why_illegal(type_.shape, mixture, mesh_) || canonical(type_.shape, mixture, mesh_) != mixture) continue;
    State state = intern(mixture);
    if (!mixture.has_maximum() && std::find(states.begin(), states.end(), state) == states.end())
      states.push_back(state);
  }
  return states;
}

/// The cheapest trees from every branching state to every set of targets, smaller sets first.
class ConversionGraph::SteinerTable {
 public:
  SteinerTable(ConversionGraph& graph, std::vector<State> at, std::span<const State> targets)
      : graph_(graph), at_(std::move(at)), targets_(targets), entries_(size_t{1} << targets.size()) {
    for (size_t set = 1; set < entries_.size(); ++set) fill(set);
  }

  /// For all targets, from the first branching state.
  Tree tree() const {
    Tree tree{entries_.back()[0].cost, {}};
    add_edges(entries_.size() - 1, 0, tree.edges);
    return tree;
  }

 private:
  /// The tree goes to state `via` first, and there splits into trees for `part` and the rest; `part` 0: it is one path.
  struct Entry {
    ConversionCost cost;
    size_t via = 0;
    size_t part = 0;
  };

  void fill(size_t set) {
    std::vector<Entry>& row = entries_[set];
    row.resize(at_.size());
    bool is_one = (set & (set - 1)) == 0;
    if (is_one) {
      auto target = static_cast<size_t>(std::countr_zero(set));
      for (size_t i = 0; i < at_.size(); ++i) row[i].cost = graph_.cost(at_[i], targets_[target]);
      return;
    }
    std::vector<Entry> joined(at_.size());
    size_t lowest = set & (~set + 1);
    for (size_t i = 0; i < at_.size(); ++i) {
      for (size_t part = (set - 1) & set; part > 0; part = (part - 1) & set) {
        if ((part & lowest) == 0) continue;  // each division once
        ConversionCost cost = entries_[part][i].cost + entries_[set & ~part][i].cost;
        if (joined[i].part == 0 || cost < joined[i].cost) joined[i] = {cost, i, part};
      }
    }
    // Of all targets together only the tree from the root matters. No tree comes back to its root (which may be a
    // maximum, that only an op makes).
    size_t num_roots = set + 1 == entries_.size() ? 1 : at_.size();
    for (size_t i = 0; i < num_roots; ++i) {
      row[i] = joined[i];
      for (size_t j = 1; j < at_.size(); ++j) {
        if (j == i) continue;
        ConversionCost cost = graph_.cost(at_[i], at_[j]) + joined[j].cost;
        if (cost < row[i].cost) row[i] = {cost, j, joined[j].part};
      }
    }
  }

  void add_edges(size_t set, size_t i, std::vector<Edge>& edges) const {
    const Entry& entry = entries_[set][i];
    if (entry.part == 0) {
      State target = targets_[static_cast<size_t>(std::countr_zero(set))];
      if (at_[i] != target) edges.emplace_back(at_[i], target);
      return;
    }
    if (entry.via != i) edges.emplace_back(at_[i], at_[entry.via]);
    add_edges(entry.part, entry.via, edges);
    add_edges(set & ~entry.part, entry.via, edges);
  }

  ConversionGraph& graph_;
  std::vector<State> at_;
  std::span<const State> targets_;
  std::vector<std::vector<Entry>> entries_;  ///< [set of targets][branching state]
};

const ConversionGraph::Tree& ConversionGraph::tree(State from, std::span<const State> targets) {
  std::vector<State> distinct;
  for (State target : targets) {
    if (target != from) distinct.push_back(target);
  }
  // In an order of their own, so that equal sets give equal trees.
  std::sort(distinct.begin(), distinct.end(), [&](State a, State b) { return sharding(a) < sharding(b); });
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<State> key{from};
  key.insert(key.end(), distinct.begin(), distinct.end());
  if (auto known = trees_.find(key); known != trees_.end()) return known->second;
  Tree made;
  if (distinct.size() == 1 || distinct.size() > kMaxTargets) {
    for (State target : distinct) {
      made.cost += cost(from, target);
      made.edges.emplace_back(from, target);
    }
  } else if (distinct.size() > 1) {
    made = SteinerTable(*this, branching_states(from, distinct), distinct).tree();
  }
  return trees_.emplace(std::move(key), std::move(made)).first->second;
}

/// Every target is served from one of the forms: all divisions of the targets among them are tried.
ConversionGraph::Tree ConversionGraph::forest(std::span<const State> from, std::span<const State> targets) {
  std::vector<State> wanted;
  for (State target : targets) {
    bool is_there = std::find(from.begin(), from.end(), target) != from.end();
    if (!is_there && std::find(wanted.begin(), wanted.end(), target) == wanted.end()) wanted.push_back(target);
  }
  if (wanted.empty()) return {};
  if (from.size() == 1 || wanted.size() > kMaxTargets) return tree(from[0], wanted);
  std::sort(wanted.begin(), wanted.end(), [&](State a, State b) { return sharding(a) < sharding(b); });
  std::optional<Tree> best;
  std::vector<size_t> source_of(wanted.size(), 0);
  while (true) {
    Tree made;
    for (size_t source = 0; source < from.size(); ++source) {
      std::vector<State> its;
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (source_of[i] == source) its.push_back(wanted[i]);
      }
      if (its.empty()) continue;
      const Tree& part = tree(from[source], its);
      made.cost += part.cost;
      made.edges.insert(made.edges.end(), part.edges.begin(), part.edges.end());
    }
    if (!best || made.cost < best->cost) best = std::move(made);
    size_t i = 0;
    while (i < wanted.size() && ++source_of[i] == from.size()) source_of[i++] = 0;
    if (i == wanted.size()) return *best;
  }
}

ConversionCost ConversionGraph::provide_cost(std::span<const State> from, std::span<const State> targets) {
  return forest(from, targets).cost;
}

std::vector<ConversionGraph::Edge> ConversionGraph::provide(std::span<const State> from,
                                                            std::span<const State> targets) {
  return forest(from, targets).edges;
}

ConversionGraph& ConversionGraphs::of(const TensorType& type) {
  return graphs_.try_emplace({type.shape, type.dtype}, type, mesh_, price_, detours_).first->second;
}

std::vector<Move> redistribute(const Shape& shape, const TensorSharding& from, const TensorSharding& to,
                               const DeviceMesh& mesh) {
  ConversionGraph graph({DType::kF32, shape}, mesh, MovePrice());
  ConversionGraph::State start = graph.add(from);
  return graph.path(start, graph.add(to));
}

}  // namespace tpc

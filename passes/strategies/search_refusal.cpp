#include "passes/strategies/search_refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

/// Nodes without a way that are looked at.
constexpr size_t kMostFailing = 8;

/// A name of SearchOptions::no_split, or the pointer of an annotation (all copies of a repeated layer share it).
struct Wish {
  bool is_annotation = false;
  std::string text;
};

class WishSets {
 public:
  WishSets(const Graph& graph, const NodeRules& rules, const SearchOptions& options)
      : graph_(graph), rules_(rules), options_(options) {
    for (const std::string& name : options.no_split) add({false, name});
    for (const Node& node : graph.nodes) {
      if (!node.annotation.empty()) add({true, node.annotation.pointer});
    }
  }

  /// The fewest wishes that leave some node (the first of those that need as few) or leaf without a way, and that node
  /// (-1: a leaf). No wishes: even without any there is none.
  struct Contradiction {
    std::vector<Wish> wishes;
    int node = -1;
  };
  Contradiction smallest_contradiction(const SearchSpace& space) const {
    Contradiction smallest{wishes_, space.empty_nodes().empty() ? -1 : static_cast<int>(space.empty_nodes().front())};
    // Copies of a layer contradict themselves alike.
    std::set<std::pair<int, Phase>> seen;
    std::vector<int> failing;
    for (size_t n : space.empty_nodes()) {
      if (failing.size() == kMostFailing) break;
      if (seen.emplace(rules_.kind(n), graph_.nodes[n].phase).second) failing.push_back(static_cast<int>(n));
    }
    if (failing.empty()) failing.push_back(-1);
    for (int node : failing) {
      std::vector<Wish> needed = needed_to_fail(node);
      if (needed.size() < smallest.wishes.size() || node == failing[0]) smallest = {std::move(needed), node};
      if (smallest.wishes.empty()) break;
    }
    return smallest;
  }

 private:
  void add(Wish wish) {
    bool known = std::any_of(wishes_.begin(), wishes_.end(), [&](const Wish& other) {
      return other.is_annotation == wish.is_annotation && other.text == wish.text;
    });
    if (!known) wishes_.push_back(std::move(wish));
  }

  /// A set of wishes that leaves `node` without a way, and no longer does when any of them is dropped: one wish or a
  /// pair where there is such, else what is left when wishes are dropped one by one.
  std::vector<Wish> needed_to_fail(int node) const {
    if (!holds({}, node)) return {};
    for (const Wish& wish : wishes_) {
      if (!holds({wish}, node)) return {wish};
    }
    constexpr size_t kMostPairs = 12;  // wishes; of more, pairs are not tried
    for (size_t i = 0; i < wishes_.size() && wishes_.size() <= kMostPairs; ++i) {
      for (size_t j = i + 1; j < wishes_.size(); ++j) {
        if (!holds({wishes_[i], wishes_[j]}, node)) return {wishes_[i], wishes_[j]};
      }
    }
    std::vector<Wish> needed = wishes_;
    for (size_t i = needed.size(); i > 0; --i) {
      std::vector<Wish> fewer = needed;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i) - 1);
      if (!holds(fewer, node)) needed = std::move(fewer);
    }
    return needed;
  }

  /// Node `failing` has a way (-1: every leaf has).
  bool holds(const std::vector<Wish>& kept, int failing) const {
    Graph graph = graph_;
    SearchOptions options = options_;
    options.no_split.clear();
    auto is_kept = [&](const std::string& pointer) {
      return std::any_of(kept.begin(), kept.end(),
                         [&](const Wish& wish) { return wish.is_annotation && wish.text == pointer; });
    };
    for (Node& node : graph.nodes) {
      if (!is_kept(node.annotation.pointer)) node.annotation = {};
    }
    for (const Wish& wish : kept) {
      if (!wish.is_annotation) options.no_split.push_back(wish.text);
    }
    SearchSpace space(graph, rules_, options);
    if (failing < 0) return space.empty_leaves().empty();
    const std::vector<size_t>& empty = space.empty_nodes();
    return std::find(empty.begin(), empty.end(), static_cast<size_t>(failing)) == empty.end();
  }

  const Graph& graph_;
  const NodeRules& rules_;
  const SearchOptions& options_;
  std::vector<Wish> wishes_;
};

/// The axis that is too large for every split that is allowed on it, with the sizes that work; else of which splits
/// there are too few for all axes together.
std::string too_many_ranks(const Graph& graph, size_t n, const SearchSpace& space) {
  std::vector<std::string> all;
  for (size_t axis = 0; axis < graph.mesh.num_axes(); ++axis) {
    std::vector<std::string> names;
    int64_t most = 1;
    for (const SearchSpace::Split& split : space.splits(n, axis)) {
      names.push_back(fmt::format("{} {}", split.dim, split.blocks));
      most = std::max(most, split.blocks);
    }
    const MeshAxis& its = graph.mesh.axes()[axis];
    if (its.size > most) {
      return fmt::format("over {} {}, which may split it by {}; {} 1 to {} work", its.name, its.size,
                         names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")), its.name, most);
    }
    all.push_back(fmt::format("{} {} by {}", its.name, its.size, fmt::join(names, ", ")));
  }
  return fmt::format("over all axes together ({}); use fewer ranks", fmt::join(all, "; "));
}

}  // namespace

const SearchSpace& require_ways(const Graph& graph, const NodeRules& rules, const SearchOptions& options,
                                const SearchSpace& space) {
  if (space.empty_nodes().empty() && space.empty_leaves().empty()) return space;
  auto [wishes, failing] = WishSets(graph, rules, options).smallest_contradiction(space);
  std::string what;
  SourceLoc loc{graph.source_file, ""};
  if (failing >= 0) {
    auto n = static_cast<size_t>(failing);
    const Node& node = graph.nodes[n];
    loc = graph.loc(node);
    std::string who = fmt::format("\"{}\" ({}, {})", node.layer, op_name(node.op), to_string(node.phase));
    if (wishes.empty()) {
      throw UserError(loc, fmt::format("the work of {} cannot be shared {}", who, too_many_ranks(graph, n, space)));
    }
    what = fmt::format("the work of {} cannot be shared by {}", who, to_string(graph.mesh));
  } else {
    what = fmt::format("\"{}\" has no place to lie", graph.value(space.empty_leaves().front()).name);
  }
  std::vector<std::string> names;
  std::vector<Note> notes;
  for (const Wish& wish : wishes) {
    if (!wish.is_annotation) {
      names.push_back("--no-split " + wish.text);
      continue;
    }
    auto pinned = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                               [&](const Node& node) { return node.annotation.pointer == wish.text; });
    names.push_back(fmt::format("the pin of \"{}\"", pinned->layer));
    notes.push_back({{graph.source_file, wish.text}, "the pin is here"});
  }
  throw UserError(Diagnostic{Severity::kError, loc,
                             fmt::format("{}: {} cannot hold{}; drop {}", what, fmt::join(names, " and "),
                                         names.size() == 1 ? " here" : " together", names.size() == 1 ? "it" : "one"),
                             std::move(notes)});
}

}  // namespace tpc

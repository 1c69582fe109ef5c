/// Conversions of one tensor between shardings: shortest paths for one target, cheapest trees for several.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/sharding/move_price.h"

namespace tpc {

/// Compared in this order.
struct ConversionCost {
  int64_t price = 0;  ///< see MovePrice
  int collectives = 0;
  int moves = 0;

  ConversionCost& operator+=(const ConversionCost& other) {
    price += other.price;
    collectives += other.collectives;
    moves += other.moves;
    return *this;
  }
  friend ConversionCost operator+(ConversionCost a, const ConversionCost& b) { return a += b; }
  auto operator<=>(const ConversionCost&) const = default;
};

/// Which paths a conversion may take.
enum class Detours : uint8_t {
  kNone,  ///< through Replicate and the placements of either end: what people expect
  kAny,  ///< through any dimension and Partial too: zeros beside the own block, then a reduction, can be cheaper than a
         ///< gather
};

/// Nodes are shardings of the tensor, edges are moves; both are made as they are asked for. In whole units (S(d:u)) a
/// path splits only as one of its ends does. Axes with the same change move in one collective over their joint group.
class ConversionGraph {
 public:
  /// Index of a sharding that was added.
  using State = int;
  /// From one state of a tree to the next.
  using Edge = std::pair<State, State>;

  ConversionGraph(TensorType type, const DeviceMesh& mesh, MovePrice price, Detours detours = Detours::kAny);

  /// The sharding must be legal and canonical(). Adding it twice gives the same index.
  State add(const TensorSharding& sharding);
  const TensorSharding& sharding(State state) const { return states_[position(state)].sharding; }

  /// Least price, then fewest collectives, then fewest moves. InternalError when there is no path (to a Partial(max)).
  ConversionCost cost(State from, State to);
  /// The moves of that path, ties broken in a fixed order; empty when from == to.
  std::vector<Move> path(State from, State to);

  /// Of the cheapest way to have all targets at once, a conversion that several share made once: minimum Steiner
  /// arborescences from the forms there are, branching at states whose placement on every axis is Replicate or that of
  /// the root or of a target (Dreyfus and Wagner, "The Steiner problem in graphs", 1971). More than kMaxTargets targets
  /// are converted each by itself, all from the first form.
  ConversionCost provide_cost(std::span<const State> from, std::span<const State> targets);
  /// Its edges, each after the one that leads to it.
  std::vector<Edge> provide(std::span<const State> from, std::span<const State> targets);

  static constexpr size_t kMaxTargets = 6;

 private:
  /// One bit a distinct placement of the shardings that were added.
  using PlacementSet = uint64_t;
  /// Of a placement that was not added: canonical() made it.
  static constexpr PlacementSet kUnnamed = PlacementSet{1} << 63;

  struct Step {
    State to = 0;
    ConversionCost cost;
    /// The placement that it splits by; none for a gather or reduction.
    PlacementSet splits_by = 0;
    Move move;
  };
  struct Node {
    TensorSharding sharding;
    PlacementSet placements = 0;
    std::optional<std::vector<Step>> steps;
  };
  /// How a search came to a state; step -1: not yet, or it is the start.
  struct Reached {
    std::optional<ConversionCost> cost;
    State from = -1;
    int step = -1;
  };
  struct Tree {
    ConversionCost cost;
    std::vector<Edge> edges;
  };

  class SteinerTable;

  static size_t position(State state) { return static_cast<size_t>(state); }
  PlacementSet bit_of(const Placement& placement) const;
  PlacementSet placements_of(const TensorSharding& sharding) const;
  State intern(const TensorSharding& sharding);
  const std::vector<Step>& steps_from(State state);
  void add_steps(State state, const std::vector<int64_t>& axes, std::vector<Step>& steps);
  PlacementSet allowed_between(State from, State to) const;
  bool makes_unwanted_partial(const Move& move, State to) const;
  /// Dijkstra from `from` over steps that split by `allowed`, until `to` is reached (-1: everywhere). By state.
  std::vector<Reached> search(State from, PlacementSet allowed, State to);
  std::vector<State> branching_states(State from, std::span<const State> targets);
  const Tree& tree(State from, std::span<const State> targets);
  Tree forest(std::span<const State> from, std::span<const State> targets);

  TensorType type_;
  DeviceMesh mesh_;
  MovePrice price_;
  Detours detours_;
  std::vector<Node> states_;
  std::map<TensorSharding, State> index_;
  std::vector<Placement> placements_;
  PlacementSet whole_elements_ = 0;
  /// With detours: from states without units, to all such states.
  std::unordered_map<State, std::vector<Reached>> reached_;
  /// Of other pairs.
  std::unordered_map<uint64_t, ConversionCost> costs_;
  std::map<std::vector<State>, Tree> trees_;
};

/// The conversion graphs of all tensors of a step: one a type.
class ConversionGraphs {
 public:
  ConversionGraphs(const DeviceMesh& mesh, MovePrice price, Detours detours)
      : mesh_(mesh), price_(std::move(price)), detours_(detours) {}

  ConversionGraph& of(const TensorType& type);

 private:
  DeviceMesh mesh_;
  MovePrice price_;
  Detours detours_;
  std::map<std::pair<Shape, DType>, ConversionGraph> graphs_;
};

/// The cheapest sequence of moves from one sharding to another, by bytes received.
std::vector<Move> redistribute(const Shape& shape, const TensorSharding& from, const TensorSharding& to,
                               const DeviceMesh& mesh);

}  // namespace tpc

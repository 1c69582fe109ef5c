// The cheapest conversion between two shardings: a shortest path over the shardings of one tensor (sharding algebra:
// a step on one group of axes moves the local tensor, so the order of steps matters).
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "compiler/core/check.h"
#include "compiler/sharding/collective.h"

namespace tpc {
namespace {

/// Largest receives summed, collectives, moves; compared in this order.
using PathCost = std::tuple<int64_t, int, int>;

class PathSearch {
 public:
  PathSearch(const Shape& shape, const TensorSharding& from, const TensorSharding& to, const DeviceMesh& mesh)
      : shape_(shape), from_(from), to_(to), mesh_(mesh) {
    std::set<Placement> shards;
    for (const TensorSharding* side : {&from, &to}) {
      for (const Placement& placement : side->placements) {
        if (placement.is_shard()) shards.insert(placement);
      }
    }
    shards_.assign(shards.begin(), shards.end());
  }

  std::vector<Move> run() {
    std::map<TensorSharding, Entry> best;
    std::set<std::pair<PathCost, TensorSharding>> open;
    best[from_] = {PathCost{0, 0, 0}, std::nullopt};
    open.insert({PathCost{0, 0, 0}, from_});
    while (!open.empty()) {
      auto [cost, state] = *open.begin();
      open.erase(open.begin());
      if (state == to_) return trace(best);
      for (Move& move : moves_from(state)) {
        PathCost next{std::get<0>(cost) + max_received_elements(move, shape_, mesh_),
                      std::get<1>(cost) + (communicates(move.kind) ? 1 : 0), std::get<2>(cost) + 1};
        auto found = best.find(move.to);
        if (found != best.end() && found->second.cost <= next) continue;
        if (found != best.end()) open.erase({found->second.cost, move.to});
        open.insert({next, move.to});
        TensorSharding target = move.to;
        best[target] = {next, std::move(move)};
      }
    }
    TPC_UNREACHABLE("no conversion from {} to {} of {} on {}", to_string(from_), to_string(to_), to_string(shape_),
                    to_string(mesh_));
  }

 private:
  struct Entry {
    PathCost cost;
    std::optional<Move> move;
  };

  std::vector<Move> trace(const std::map<TensorSharding, Entry>& best) const {
    std::vector<Move> path;
    TensorSharding state = to_;
    while (const std::optional<Move>& move = best.at(state).move) {
      path.push_back(*move);
      state = move->from;
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  std::vector<Move> moves_from(const TensorSharding& state) const {
    std::vector<Move> moves;
    size_t num_axes = mesh_.num_axes();
    for (uint32_t subset = 1; subset < (1U << num_axes); ++subset) {
      std::vector<int64_t> axes;
      for (size_t axis = 0; axis < num_axes; ++axis) {
        if ((subset >> axis) & 1U) axes.push_back(static_cast<int64_t>(axis));
      }
      add_moves(state, axes, moves);
    }
    return moves;
  }

  /// All axes of a move must share kind (and dimension), so that the group forms one contiguous order of blocks.
  void add_moves(const TensorSharding& state, const std::vector<int64_t>& axes, std::vector<Move>& moves) const {
    const Placement& first = state.placements[static_cast<size_t>(axes[0])];
    for (int64_t axis : axes) {
      const Placement& other = state.placements[static_cast<size_t>(axis)];
      if (other.kind != first.kind || other.dim != first.dim || other.reduce != first.reduce) return;
    }
    if (first.is_shard() && !is_innermost(state, axes, first.dim)) return;
    auto add = [&](MoveKind kind, const Placement& target) {
      if (target.is_shard() && !is_innermost(state, axes, target.dim)) return;
      Move move{kind, axes, state, state};
      for (int64_t axis : axes) move.to.placements[static_cast<size_t>(axis)] = target;
      if (move.to == state || why_illegal(shape_, move.to, mesh_)) return;
      move.to = canonical(shape_, std::move(move.to), mesh_);
      moves.push_back(std::move(move));
    };
    switch (first.kind) {
      case Placement::Kind::kPartial:
        add(MoveKind::kAllReduce, Placement::replicate());
        for (const Placement& shard : shards_) add(MoveKind::kReduceScatter, shard);
        break;
      case Placement::Kind::kReplicate:
        for (const Placement& shard : shards_) add(MoveKind::kSlice, shard);
        if (partial_wanted(axes)) add(MoveKind::kMask, Placement::partial());
        break;
      case Placement::Kind::kShard:
        add(MoveKind::kAllGather, Placement::replicate());
        for (const Placement& shard : shards_) add(MoveKind::kAllToAll, shard);
        if (partial_wanted(axes)) add(MoveKind::kZeroPad, Placement::partial());
        break;
    }
  }

  /// A dimension is put together and split at its innermost axes only: a block that a later axis split further is not
  /// contiguous in the order of the earlier axis.
  bool is_innermost(const TensorSharding& state, const std::vector<int64_t>& axes, int32_t dim) const {
    for (size_t axis = static_cast<size_t>(axes[0]); axis < mesh_.num_axes(); ++axis) {
      bool moving = std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
      if (!moving && state.placements[axis].is_shard_of(dim)) return false;
    }
    return true;
  }

  bool partial_wanted(const std::vector<int64_t>& axes) const {
    return std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
      const Placement& wanted = to_.placements[static_cast<size_t>(axis)];
      return wanted.is_partial() && wanted.reduce == ReduceOp::kSum;
    });
  }

  const Shape& shape_;
  const TensorSharding& from_;
  const TensorSharding& to_;
  const DeviceMesh& mesh_;
  std::vector<Placement> shards_;
};

}  // namespace

std::vector<Move> redistribute(const Shape& shape, const TensorSharding& from, const TensorSharding& to,
                               const DeviceMesh& mesh) {
  if (from == to) return {};
  return PathSearch(shape, from, to, mesh).run();
}

}  // namespace tpc

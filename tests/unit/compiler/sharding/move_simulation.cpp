#include "tests/unit/compiler/sharding/move_simulation.h"

#include <algorithm>
#include <stdexcept>

#include "compiler/core/philox.h"

namespace tpc {
namespace {

std::vector<Shape> indices_in(const Region& region) {
  std::vector<Shape> result{{}};
  for (const Interval& interval : region.dims) {
    std::vector<Shape> longer;
    for (const Shape& prefix : result) {
      for (int64_t i = interval.begin; i < interval.end; ++i) {
        longer.push_back(prefix);
        longer.back().push_back(i);
      }
    }
    result = std::move(longer);
  }
  return result;
}

std::vector<int64_t> partial_axes(const TensorSharding& sharding) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < sharding.placements.size(); ++i) {
    if (sharding.placements[i].is_partial()) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

int64_t share(const Shape& index, int64_t position) {
  uint64_t hash = static_cast<uint64_t>(position);
  for (int64_t i : index) hash = hash * 31 + static_cast<uint64_t>(i);
  return static_cast<int64_t>(random_word({3, 4}, 0, hash) % 2000) - 1000;
}

int64_t sum_of_shares(const Shape& index, int64_t members) {
  int64_t sum = 0;
  for (int64_t position = 0; position < members; ++position) sum += share(index, position);
  return sum;
}

// A reduce_scatter of the balanced split of the flattened tensor, then an all_gather of it.
int64_t all_reduce_receives(const std::vector<int64_t>& group, int64_t rank, int64_t total) {
  int64_t members = static_cast<int64_t>(group.size());
  int64_t position = std::find(group.begin(), group.end(), rank) - group.begin();
  int64_t own = total / members + (position < total % members ? 1 : 0);
  return (members - 1) * own + (total - own);
}

}  // namespace

MoveSimulation::MoveSimulation(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh)
    : shape_(shape), mesh_(mesh) {
  for (const Shape& index : indices_in(whole_region(shape))) {
    tensor_[index] = 1 + static_cast<int64_t>(random_word({1, 2}, 0, tensor_.size()) % 1000);
  }
  std::vector<int64_t> axes = partial_axes(sharding);
  int64_t members = mesh.group_size(axes);
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    Held held;
    int64_t position = mesh.index_in_group(axes, mesh.coordinate(rank));
    for (const Shape& index : indices(sharding, rank)) {
      bool is_last = position + 1 == members;
      held[index] = is_last ? tensor_[index] - sum_of_shares(index, members - 1) : share(index, position);
    }
    ranks_.push_back(std::move(held));
  }
}

void MoveSimulation::apply(const Move& move) {
  std::vector<Held> after;
  received_.assign(ranks_.size(), 0);
  for (int64_t rank = 0; rank < mesh_.world_size(); ++rank) after.push_back(result_of(move, rank));
  ranks_ = std::move(after);
}

bool MoveSimulation::holds(const TensorSharding& sharding) const {
  std::vector<int64_t> axes = partial_axes(sharding);
  for (int64_t rank = 0; rank < mesh_.world_size(); ++rank) {
    std::vector<Shape> wanted = indices(sharding, rank);
    if (held(rank).size() != wanted.size()) return false;
    for (const Shape& index : wanted) {
      int64_t sum = 0;
      for (int64_t member : mesh_.group(axes, rank)) {
        auto found = held(member).find(index);
        if (found == held(member).end()) return false;
        sum += found->second;
      }
      if (sum != tensor_.at(index)) return false;
    }
  }
  return true;
}

std::vector<Shape> MoveSimulation::indices(const TensorSharding& sharding, int64_t rank) const {
  return indices_in(local_region(shape_, sharding, mesh_, mesh_.coordinate(rank)));
}

MoveSimulation::Held MoveSimulation::result_of(const Move& move, int64_t rank) {
  std::vector<int64_t> group = mesh_.group(move.axes, rank);
  int64_t& count = received_[static_cast<size_t>(rank)];
  Held result;
  for (const Shape& index : indices(move.to, rank)) {
    switch (move.kind) {
      case MoveKind::kAllReduce:
      case MoveKind::kReduceScatter:
        for (int64_t member : group) result[index] += held(member).at(index);
        if (move.kind == MoveKind::kReduceScatter) count += static_cast<int64_t>(group.size()) - 1;
        break;
      case MoveKind::kAllGather:
      case MoveKind::kAllToAll: {
        auto holds_it = [&](int64_t member) { return held(member).contains(index); };
        if (std::count_if(group.begin(), group.end(), holds_it) != 1) throw std::logic_error("not on one rank");
        int64_t holder = *std::find_if(group.begin(), group.end(), holds_it);
        result[index] = held(holder).at(index);
        count += holder != rank ? 1 : 0;
        break;
      }
      case MoveKind::kSlice:
        result[index] = held(rank).at(index);
        break;
      case MoveKind::kMask:
        result[index] = rank == group.front() ? held(rank).at(index) : 0;
        break;
      case MoveKind::kZeroPad:
        result[index] = held(rank).contains(index) ? held(rank).at(index) : 0;
        break;
    }
  }
  if (move.kind == MoveKind::kAllReduce) count = all_reduce_receives(group, rank, static_cast<int64_t>(result.size()));
  return result;
}

}  // namespace tpc

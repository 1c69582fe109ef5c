/// Conversions are judged by simulation: every rank holds numbers, each move is carried out from its meaning alone, and
/// what lies on the ranks at the end must be the tensor in the placement wanted.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/sharding/collective.h"

namespace tpc {

class MoveSimulation {
 public:
  /// A tensor of random integers laid out as `sharding`; the ranks of partial axes hold random shares of it.
  MoveSimulation(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh);

  /// Throws when a rank reads what it does not hold, or when an element that ranks exchange lies on several of them.
  void apply(const Move& move);

  /// Every rank holds exactly its region, and the ranks of the partial axes add up to the tensor.
  bool holds(const TensorSharding& sharding) const;

  /// Elements that came from other ranks in the last move.
  int64_t received(int64_t rank) const { return received_[static_cast<size_t>(rank)]; }

 private:
  /// Global index -> number.
  using Held = std::map<Shape, int64_t>;

  const Held& held(int64_t rank) const { return ranks_[static_cast<size_t>(rank)]; }
  std::vector<Shape> indices(const TensorSharding& sharding, int64_t rank) const;
  Held result_of(const Move& move, int64_t rank);

  Shape shape_;
  DeviceMesh mesh_;
  Held tensor_;
  std::vector<Held> ranks_;
  std::vector<int64_t> received_;
};

}  // namespace tpc

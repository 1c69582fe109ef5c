/// Moves between placements: the collectives and local moves that change how a tensor lies, and what each costs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/sharding/placement.h"

namespace tpc {

/// The first four communicate; the others are local and free.
enum class MoveKind : uint8_t {
  kAllReduce,      ///< P -> R
  kReduceScatter,  ///< P -> S(d)
  kAllGather,      ///< S(d) -> R
  kAllToAll,       ///< S(d) -> S(e)
  kSlice,          ///< R -> S(d): keep the own block
  kMask,           ///< R -> P: the first rank of the group keeps the value, the others zero
  kZeroPad,        ///< S(d) -> P: zeros around the own block
};

/// "all_reduce", ..., "slice", "mask", "zero_pad".
std::string_view to_string(MoveKind kind);
bool communicates(MoveKind kind);

/// One step: `axes` (increasing) change together, as one group; the other axes keep their placement.
struct Move {
  MoveKind kind = MoveKind::kAllReduce;
  std::vector<int64_t> axes;
  TensorSharding from;
  TensorSharding to;
  bool operator==(const Move&) const = default;
};

/// Elements that the rank at `coordinate` receives from its peers in this move, exact for uneven blocks:
/// all_gather total - own, reduce_scatter (n - 1) * own, all_reduce the sum of both over the balanced split of the
/// flattened local tensor, all_to_all what its new block takes from other ranks. 0 for local moves.
int64_t received_elements(const Move& move, const Shape& shape, const DeviceMesh& mesh,
                          std::span<const int64_t> coordinate);

/// The largest receive of any rank.
int64_t max_received_elements(const Move& move, const Shape& shape, const DeviceMesh& mesh);

/// Size of the tensor that takes part, whole on the group's axes and local on the others, for the rank at `coordinate`:
/// the B of the ring formulas (an all_reduce moves 2B(n-1)/n, an all_gather or reduce_scatter B(n-1)/n).
int64_t volume_elements(const Move& move, const Shape& shape, const DeviceMesh& mesh,
                        std::span<const int64_t> coordinate);

/// Ranks at which extremes over the whole mesh are reached: every rank of a small mesh; otherwise per axis the first
/// and last coordinate and those where a balanced split of any of `sizes` changes. Coordinates, in rank order.
std::vector<std::vector<int64_t>> representative_coordinates(const DeviceMesh& mesh, std::span<const int64_t> sizes);

}  // namespace tpc

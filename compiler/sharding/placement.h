/// Placements: how a tensor lies on the ranks of one mesh axis, and which part of it a rank holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/core/shape.h"
#include "compiler/sharding/device_mesh.h"

namespace tpc {

enum class ReduceOp : uint8_t { kSum, kMax };

/// "sum", "max".
std::string_view to_string(ReduceOp op);

/// One tensor on one mesh axis.
///   R        every rank of the axis holds the same value.
///   S(dim)   rank r holds the r-th block of `dim`; blocks are balanced (the first size % n ranks hold one more).
///   S(dim:u) the same in whole units of u elements (heads by kv group, a merged dimension by its outer part).
///   P(op)    the tensor is the sum (or maximum) over the ranks.
struct Placement {
  enum class Kind : uint8_t { kReplicate, kShard, kPartial };

  Kind kind = Kind::kReplicate;
  ReduceOp reduce = ReduceOp::kSum;
  int32_t dim = -1;
  int64_t unit = 1;

  static Placement replicate() { return {}; }
  static Placement shard(int64_t dim, int64_t unit = 1) {
    return {Kind::kShard, ReduceOp::kSum, static_cast<int32_t>(dim), unit};
  }
  static Placement partial(ReduceOp op = ReduceOp::kSum) { return {Kind::kPartial, op, -1, 1}; }

  bool is_replicate() const { return kind == Kind::kReplicate; }
  bool is_shard() const { return kind == Kind::kShard; }
  bool is_shard_of(int64_t d) const { return kind == Kind::kShard && dim == d; }
  bool is_partial() const { return kind == Kind::kPartial; }

  auto operator<=>(const Placement&) const = default;
};

/// A tensor on the whole mesh: placements[i] belongs to mesh axis i. A dimension that several axes shard is split left
/// to right (outermost axis first), each axis splitting the block that the axes before it left.
struct TensorSharding {
  std::vector<Placement> placements;

  bool is_replicated() const;
  bool has_partial() const;
  /// Some axis holds partial maxima, which only an op makes.
  bool has_maximum() const;
  auto operator<=>(const TensorSharding&) const = default;

  static TensorSharding replicated(const DeviceMesh& mesh) { return {std::vector<Placement>(mesh.num_axes())}; }
};

/// "R", "S(0)", "S(2:4)", "P(sum)".
std::string to_string(const Placement& placement);
/// "[S(0), R]".
std::string to_string(const TensorSharding& sharding);
std::optional<Placement> parse_placement(std::string_view text);
std::optional<TensorSharding> parse_sharding(std::string_view text);

/// Half-open range of indices of one dimension.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};

/// The part of a global tensor that a rank holds: one interval a dimension.
struct Region {
  std::vector<Interval> dims;

  Shape extents() const;
  int64_t num_elements() const;
  bool operator==(const Region&) const = default;
};

/// Block `index` of `parts` of a dimension of `size` elements, in whole units of `unit`. The one function that divides:
/// 8 on 3 -> [0,3) [3,6) [6,8); 32 in units of 4 on 3 -> [0,12) [12,24) [24,32).
Interval balanced_block(int64_t size, int64_t unit, int64_t parts, int64_t index);

/// What the rank at `coordinate` holds. Partial and Replicate axes hold every dimension whole.
Region local_region(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh,
                    std::span<const int64_t> coordinate);
Region whole_region(const Shape& shape);

/// Sizes of the fullest rank's part (per dimension the largest block; the rank at coordinate 0 holds it).
Shape fullest_shape(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh);
/// Bytes of that part.
int64_t fullest_bytes(const TensorType& type, const TensorSharding& sharding, const DeviceMesh& mesh);

/// Why `sharding` is not possible for `shape` (a dimension out of range, or smaller than the axes that split it), in
/// the user's terms; nullopt when it is legal. Legal means that every rank holds at least one unit of every dimension.
std::optional<std::string> why_illegal(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh);

/// Drops units that change nothing: S(2:4) of 32 on 4 ranks is S(2). Shardings are compared in this form.
TensorSharding canonical(const Shape& shape, TensorSharding sharding, const DeviceMesh& mesh);

}  // namespace tpc

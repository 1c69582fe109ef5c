#include "compiler/sharding/collective.h"

#include <algorithm>
#include <set>

#include "compiler/core/check.h"

namespace tpc {
namespace {

/// Meshes up to this many ranks are enumerated whole.
constexpr int64_t kSmallWorld = 64;

Region region_without(const Shape& shape, TensorSharding sharding, std::span<const int64_t> axes,
                      const DeviceMesh& mesh, std::span<const int64_t> coordinate) {
  for (int64_t axis : axes) sharding.placements[static_cast<size_t>(axis)] = Placement::replicate();
  return local_region(shape, sharding, mesh, coordinate);
}

int64_t intersection_elements(const Region& a, const Region& b) {
  int64_t count = 1;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    int64_t begin = std::max(a.dims[i].begin, b.dims[i].begin);
    int64_t end = std::min(a.dims[i].end, b.dims[i].end);
    count *= std::max<int64_t>(0, end - begin);
  }
  return count;
}

/// True when every rank receives the same: all blocks are equal, and so are the chunks of an all_reduce.
bool is_even(const Move& move, const Shape& shape, const DeviceMesh& mesh) {
  for (const TensorSharding* side : {&move.from, &move.to}) {
    Shape left = shape;
    for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
      const Placement& placement = side->placements[axis];
      if (!placement.is_shard()) continue;
      int64_t& size = left[static_cast<size_t>(placement.dim)];
      if (size % (placement.unit * mesh.axis_size(axis)) != 0) return false;
      size /= mesh.axis_size(axis);
    }
    bool in_chunks = move.kind == MoveKind::kAllReduce;
    if (in_chunks && num_elements(left) % mesh.group_size(move.axes) != 0) return false;
  }
  return true;
}

std::set<int64_t> breakpoints(int64_t parts, std::span<const int64_t> sizes) {
  std::set<int64_t> points{0, parts - 1};
  for (int64_t size : sizes) {
    int64_t extra = size % parts;
    points.insert(extra);
    if (extra > 0) points.insert(extra - 1);
  }
  return points;
}

}  // namespace

std::string_view to_string(MoveKind kind) {
  switch (kind) {
    case MoveKind::kAllReduce:
      return "all_reduce";
    case MoveKind::kReduceScatter:
      return "reduce_scatter";
    case MoveKind::kAllGather:
      return "all_gather";
    case MoveKind::kAllToAll:
      return "all_to_all";
    case MoveKind::kSlice:
      return "slice";
    case MoveKind::kMask:
      return "mask";
    case MoveKind::kZeroPad:
      return "zero_pad";
  }
  TPC_UNREACHABLE("move kind {}", static_cast<int>(kind));
}

bool communicates(MoveKind kind) {
  return kind != MoveKind::kSlice && kind != MoveKind::kMask && kind != MoveKind::kZeroPad;
}

int64_t received_elements(const Move& move, const Shape& shape, const DeviceMesh& mesh,
                          std::span<const int64_t> coordinate) {
  int64_t members = mesh.group_size(move.axes);
  int64_t before = local_region(shape, move.from, mesh, coordinate).num_elements();
  switch (move.kind) {
    case MoveKind::kAllReduce: {
      int64_t own = balanced_block(before, 1, members, mesh.index_in_group(move.axes, coordinate)).size();
      return (members - 1) * own + before - own;
    }
    case MoveKind::kReduceScatter:
      return (members - 1) * local_region(shape, move.to, mesh, coordinate).num_elements();
    case MoveKind::kAllGather:
      return local_region(shape, move.to, mesh, coordinate).num_elements() - before;
    case MoveKind::kAllToAll: {
      Region from = local_region(shape, move.from, mesh, coordinate);
      Region to = local_region(shape, move.to, mesh, coordinate);
      return to.num_elements() - intersection_elements(from, to);
    }
    case MoveKind::kSlice:
    case MoveKind::kMask:
    case MoveKind::kZeroPad:
      return 0;
  }
  TPC_UNREACHABLE("move kind {}", static_cast<int>(move.kind));
}

int64_t max_received_elements(const Move& move, const Shape& shape, const DeviceMesh& mesh) {
  if (!communicates(move.kind)) return 0;
  if (is_even(move, shape, mesh)) return received_elements(move, shape, mesh, std::vector<int64_t>(mesh.num_axes()));
  Shape fullest = fullest_shape(shape, move.from, mesh);
  std::vector<int64_t> sizes = shape;
  sizes.insert(sizes.end(), fullest.begin(), fullest.end());
  sizes.push_back(num_elements(fullest));
  int64_t most = 0;
  for (const std::vector<int64_t>& coordinate : representative_coordinates(mesh, sizes)) {
    most = std::max(most, received_elements(move, shape, mesh, coordinate));
  }
  return most;
}

int64_t volume_elements(const Move& move, const Shape& shape, const DeviceMesh& mesh,
                        std::span<const int64_t> coordinate) {
  return region_without(shape, move.from, move.axes, mesh, coordinate).num_elements();
}

std::vector<std::vector<int64_t>> representative_coordinates(const DeviceMesh& mesh, std::span<const int64_t> sizes) {
  std::vector<std::vector<int64_t>> per_axis;
  bool whole = mesh.world_size() <= kSmallWorld;
  for (const MeshAxis& axis : mesh.axes()) {
    std::vector<int64_t> points;
    if (whole) {
      for (int64_t i = 0; i < axis.size; ++i) points.push_back(i);
    } else {
      for (int64_t point : breakpoints(axis.size, sizes)) points.push_back(point);
    }
    per_axis.push_back(std::move(points));
  }
  std::vector<std::vector<int64_t>> coordinates{{}};
  for (const std::vector<int64_t>& points : per_axis) {
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& prefix : coordinates) {
      for (int64_t point : points) {
        longer.push_back(prefix);
        longer.back().push_back(point);
      }
    }
    coordinates = std::move(longer);
  }
  return coordinates;
}

}  // namespace tpc

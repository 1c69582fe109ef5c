#include "compiler/verify/held_range.h"

#include <algorithm>

namespace tpc::verify {

std::vector<DimCuts> dim_cuts(const PlanTensor& tensor, const DeviceMesh& mesh) {
  std::vector<DimCuts> dims;
  for (int64_t size : tensor.type.shape) dims.push_back({size, {}});
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    const Placement& placement = tensor.sharding.placements[axis];
    if (placement.kind != Placement::Kind::kShard) continue;
    dims[static_cast<size_t>(placement.dim)].cuts.push_back(
        {static_cast<int>(axis), mesh.axis_size(axis), placement.unit});
  }
  return dims;
}

Interval held(const DimCuts& dim, std::span<const int64_t> coordinate) {
  Interval range{0, dim.size};
  for (const Cut& cut : dim.cuts) {
    // The first `longer` parts hold one unit more than the others.
    int64_t units = (range.end - range.begin) / cut.unit;
    int64_t shorter_units = units / cut.parts;
    int64_t longer = units % cut.parts;
    int64_t position = coordinate[static_cast<size_t>(cut.axis)];
    int64_t first = position * shorter_units + std::min(position, longer);
    int64_t count = shorter_units + (position < longer ? 1 : 0);
    range = {range.begin + first * cut.unit, range.begin + (first + count) * cut.unit};
  }
  return range;
}

AxisSet axes_of(const DimCuts& dim) {
  AxisSet axes = 0;
  for (const Cut& cut : dim.cuts) axes |= axis_bit(cut.axis);
  return axes;
}

bool all_positions(const DeviceMesh& mesh, AxisSet axes, std::vector<int64_t>& coordinate,
                   const std::function<bool(std::span<const int64_t>)>& visit) {
  std::vector<size_t> list;
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    if ((axes & axis_bit(static_cast<int>(axis))) != 0) list.push_back(axis);
  }
  for (size_t axis : list) coordinate[axis] = 0;
  while (true) {
    if (!visit(coordinate)) return false;
    size_t i = list.size();
    while (i > 0 && ++coordinate[list[i - 1]] == mesh.axis_size(list[i - 1])) coordinate[list[--i]] = 0;
    if (i == 0) return true;
  }
}

bool same_ranges(const DimCuts& a, const DimCuts& b, int64_t scale, const DeviceMesh& mesh,
                 std::vector<int64_t>& coordinate) {
  if (scale == 1 && a == b) return true;
  if (a.size * scale != b.size) return false;
  return all_positions(mesh, axes_of(a) | axes_of(b), coordinate, [&](std::span<const int64_t> at) {
    Interval of_a = held(a, at);
    Interval of_b = held(b, at);
    return of_a.begin * scale == of_b.begin && of_a.end * scale == of_b.end;
  });
}

}  // namespace tpc::verify

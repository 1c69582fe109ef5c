/// Which range of a dimension a rank holds, from the definition of placements alone: written again here, so that a
/// mistake in the code that compiles plans (compiler/sharding) is not made twice.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc::verify {

/// One mesh axis that divides a dimension, in whole units of `unit` elements.
struct Cut {
  int axis = 0;
  int64_t parts = 1;
  int64_t unit = 1;
  auto operator<=>(const Cut&) const = default;
};

/// A dimension and the axes that divide it, outermost first, each what the ones before it left.
struct DimCuts {
  int64_t size = 0;
  std::vector<Cut> cuts;
  auto operator<=>(const DimCuts&) const = default;
};

/// One a dimension of the tensor.
std::vector<DimCuts> dim_cuts(const PlanTensor& tensor, const DeviceMesh& mesh);

/// `coordinate` has one entry an axis of the mesh.
Interval held(const DimCuts& dim, std::span<const int64_t> coordinate);

/// Sets of mesh axes, as bits.
using AxisSet = uint64_t;
inline AxisSet axis_bit(int axis) { return AxisSet{1} << axis; }
AxisSet axes_of(const DimCuts& dim);

/// Calls visit(coordinate) for every combination of positions on `axes`, the other entries as in `coordinate`, until it
/// returns false; returns whether it never did.
bool all_positions(const DeviceMesh& mesh, AxisSet axes, std::vector<int64_t>& coordinate,
                   const std::function<bool(std::span<const int64_t>)>& visit);

/// Whether two dimensions give every rank the same range, with elements of `a` counting `scale` of `b`. A rank where
/// they differ is left in `coordinate`.
bool same_ranges(const DimCuts& a, const DimCuts& b, int64_t scale, const DeviceMesh& mesh,
                 std::vector<int64_t>& coordinate);

}  // namespace tpc::verify

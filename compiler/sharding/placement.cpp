#include "compiler/sharding/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/core/text_parts.h"

namespace tpc {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view to_string(ReduceOp op) { return op == ReduceOp::kSum ? "sum" : "max"; }

bool TensorSharding::is_replicated() const {
  return std::all_of(placements.begin(), placements.end(), [](const Placement& p) { return p.is_replicate(); });
}

bool TensorSharding::has_partial() const {
  return std::any_of(placements.begin(), placements.end(), [](const Placement& p) { return p.is_partial(); });
}

bool TensorSharding::has_maximum() const {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.is_partial() && p.reduce == ReduceOp::kMax; });
}

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kReplicate:
      return "R";
    case Placement::Kind::kShard:
      return placement.unit == 1 ? fmt::format("S({})", placement.dim)
                                 : fmt::format("S({}:{})", placement.dim, placement.unit);
    case Placement::Kind::kPartial:
      return fmt::format("P({})", to_string(placement.reduce));
  }
  TPC_UNREACHABLE("placement kind {}", static_cast<int>(placement.kind));
}

std::string to_string(const TensorSharding& sharding) {
  std::string text = "[";
  for (size_t i = 0; i < sharding.placements.size(); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(sharding.placements[i]);
  }
  return text + "]";
}

std::optional<Placement> parse_placement(std::string_view text) {
  text = trim(text);
  if (text == "R") return Placement::replicate();
  if (text == "P" || text == "P(sum)") return Placement::partial();
  if (text == "P(max)") return Placement::partial(ReduceOp::kMax);
  if (!text.starts_with("S(") || !text.ends_with(")")) return std::nullopt;
  text = text.substr(2, text.size() - 3);
  size_t colon = text.find(':');
  std::optional<int64_t> dim = parse_number<int64_t>(trim(text.substr(0, colon)));
  std::optional<int64_t> unit = 1;
  if (colon != std::string_view::npos) unit = parse_number<int64_t>(trim(text.substr(colon + 1)));
  if (!dim || !unit || *dim < 0 || *dim > 63 || *unit < 1) return std::nullopt;
  return Placement::shard(*dim, *unit);
}

std::optional<TensorSharding> parse_sharding(std::string_view text) {
  text = trim(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  TensorSharding sharding;
  if (trim(text).empty()) return sharding;
  while (true) {
    size_t comma = text.find(',');
    std::optional<Placement> placement = parse_placement(text.substr(0, comma));
    if (!placement) return std::nullopt;
    sharding.placements.push_back(*placement);
    if (comma == std::string_view::npos) return sharding;
    text = text.substr(comma + 1);
  }
}

Shape Region::extents() const {
  Shape shape(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) shape[i] = dims[i].size();
  return shape;
}

int64_t Region::num_elements() const {
  int64_t count = 1;
  for (const Interval& interval : dims) count *= interval.size();
  return count;
}

Interval balanced_block(int64_t size, int64_t unit, int64_t parts, int64_t index) {
  TPC_CHECK(unit >= 1 && size % unit == 0, "{} elements are not whole units of {}", size, unit);
  int64_t units = size / unit;
  int64_t base = units / parts;
  int64_t extra = units % parts;
  int64_t begin = index * base + std::min(index, extra);
  int64_t end = begin + base + (index < extra ? 1 : 0);
  return {begin * unit, end * unit};
}

Region whole_region(const Shape& shape) {
  Region region;
  region.dims.reserve(shape.size());
  for (int64_t size : shape) region.dims.push_back({0, size});
  return region;
}

Region local_region(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh,
                    std::span<const int64_t> coordinate) {
  TPC_CHECK(sharding.placements.size() == mesh.num_axes(), "sharding {} on {}", to_string(sharding), to_string(mesh));
  Region region = whole_region(shape);
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    const Placement& placement = sharding.placements[axis];
    if (!placement.is_shard()) continue;
    Interval& interval = region.dims[static_cast<size_t>(placement.dim)];
    Interval block = balanced_block(interval.size(), placement.unit, mesh.axis_size(axis), coordinate[axis]);
    interval = {interval.begin + block.begin, interval.begin + block.end};
  }
  return region;
}

Shape fullest_shape(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh) {
  std::vector<int64_t> first(mesh.num_axes(), 0);
  return local_region(shape, sharding, mesh, first).extents();
}

int64_t fullest_bytes(const TensorType& type, const TensorSharding& sharding, const DeviceMesh& mesh) {
  return num_elements(fullest_shape(type.shape, sharding, mesh)) * byte_size(type.dtype);
}

std::optional<std::string> why_illegal(const Shape& shape, const TensorSharding& sharding, const DeviceMesh& mesh) {
  if (sharding.placements.size() != mesh.num_axes()) {
    return fmt::format("{} has {} placements, the mesh has {} axes", to_string(sharding), sharding.placements.size(),
                       mesh.num_axes());
  }
  // The emptiest rank is the last one of every axis: the others hold as much or more.
  Shape emptiest = shape;
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    const Placement& placement = sharding.placements[axis];
    if (!placement.is_shard()) continue;
    size_t dim = static_cast<size_t>(placement.dim);
    if (dim >= shape.size()) {
      return fmt::format("{} names dimension {}, the tensor has {}", to_string(placement), dim, shape.size());
    }
    int64_t parts = mesh.axis_size(axis);
    if (shape[dim] % placement.unit != 0) {
      return fmt::format("dimension {} (size {}) is not whole units of {}", dim, shape[dim], placement.unit);
    }
    if (emptiest[dim] % placement.unit != 0) {
      return fmt::format("blocks of dimension {} left by the outer axes are not whole units of {}", dim,
                         placement.unit);
    }
    int64_t units = emptiest[dim] / placement.unit;
    if (units < parts) {
      return fmt::format("axis \"{}\" (size {}) does not split dimension {} (size {}{})", mesh.axes()[axis].name, parts,
                         dim, shape[dim],
                         placement.unit == 1 ? std::string() : fmt::format(", {} units of {}", units, placement.unit));
    }
    emptiest[dim] = units / parts * placement.unit;
  }
  return std::nullopt;
}

TensorSharding canonical(const Shape& shape, TensorSharding sharding, const DeviceMesh& mesh) {
  for (size_t axis = 0; axis < sharding.placements.size(); ++axis) {
    Placement& placement = sharding.placements[axis];
    if (!placement.is_shard() || placement.unit == 1) continue;
    int64_t parts = mesh.axis_size(axis);
    bool outer_is_even = true;
    for (size_t outer = 0; outer < axis; ++outer) {
      if (!sharding.placements[outer].is_shard_of(placement.dim)) continue;
      parts *= mesh.axis_size(outer);
      outer_is_even = outer_is_even && sharding.placements[outer].unit == 1;
    }
    int64_t size = shape[static_cast<size_t>(placement.dim)];
    if (outer_is_even && size % (parts * placement.unit) == 0) placement.unit = 1;
  }
  return sharding;
}

}  // namespace tpc

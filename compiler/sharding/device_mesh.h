/// The mesh: ranks arranged on named axes, outermost first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

struct MeshAxis {
  /// "tp", or "tp.0", "tp.1" for the sub-axes of an axis that the compiler split (users see one axis).
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

/// The axis that the user named: "tp" for the sub-axis "tp.1".
std::string_view user_axis(std::string_view axis_name);

/// Rank numbering is row-major: the last axis varies fastest. A mesh without axes has one rank.
class DeviceMesh {
 public:
  DeviceMesh() = default;
  explicit DeviceMesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {}

  const std::vector<MeshAxis>& axes() const { return axes_; }
  size_t num_axes() const { return axes_.size(); }
  int64_t axis_size(size_t axis) const { return axes_[axis].size; }
  int64_t world_size() const;

  /// Position of `rank` on every axis.
  std::vector<int64_t> coordinate(int64_t rank) const;
  int64_t rank_at(std::span<const int64_t> coordinate) const;

  /// Ranks that differ from `rank` only on `axes` (increasing axis indices), in row-major order of their coordinates.
  std::vector<int64_t> group(std::span<const int64_t> axes, int64_t rank) const;
  /// Product of the sizes of `axes`.
  int64_t group_size(std::span<const int64_t> axes) const;
  /// Position within its group of the rank at `coordinate`.
  int64_t index_in_group(std::span<const int64_t> axes, std::span<const int64_t> coordinate) const;

  bool operator==(const DeviceMesh&) const = default;

 private:
  std::vector<MeshAxis> axes_;
};

/// An axis of one rank says nothing.
DeviceMesh without_trivial_axes(const DeviceMesh& mesh);

/// "mesh [dp=2, tp=4]".
std::string to_string(const DeviceMesh& mesh);
/// Reads "[dp=2, tp=4]" or "dp=2,tp=4"; nullopt when malformed, a name repeats or a size is below 1.
std::optional<DeviceMesh> parse_mesh(std::string_view text);
/// "tp" for all sub-axes of tp, "tp.1" for one of several, "dp+tp" for two axes.
std::string axes_name(const DeviceMesh& mesh, std::span<const int64_t> axes);

}  // namespace tpc

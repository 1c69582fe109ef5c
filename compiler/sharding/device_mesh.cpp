#include "compiler/sharding/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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

std::string_view user_axis(std::string_view axis_name) { return axis_name.substr(0, axis_name.find('.')); }

int64_t DeviceMesh::world_size() const {
  int64_t size = 1;
  for (const MeshAxis& axis : axes_) size *= axis.size;
  return size;
}

std::vector<int64_t> DeviceMesh::coordinate(int64_t rank) const {
  std::vector<int64_t> result(axes_.size());
  for (size_t i = axes_.size(); i > 0; --i) {
    result[i - 1] = rank % axes_[i - 1].size;
    rank /= axes_[i - 1].size;
  }
  return result;
}

int64_t DeviceMesh::rank_at(std::span<const int64_t> coordinate) const {
  TPC_CHECK(coordinate.size() == axes_.size(), "coordinate has {} entries, the mesh {} axes", coordinate.size(),
            axes_.size());
  int64_t rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) rank = rank * axes_[i].size + coordinate[i];
  return rank;
}

std::vector<int64_t> DeviceMesh::group(std::span<const int64_t> axes, int64_t rank) const {
  std::vector<int64_t> coord = coordinate(rank);
  int64_t size = group_size(axes);
  std::vector<int64_t> ranks;
  ranks.reserve(static_cast<size_t>(size));
  for (int64_t member = 0; member < size; ++member) {
    int64_t rest = member;
    for (size_t i = axes.size(); i > 0; --i) {
      size_t axis = static_cast<size_t>(axes[i - 1]);
      coord[axis] = rest % axes_[axis].size;
      rest /= axes_[axis].size;
    }
    ranks.push_back(rank_at(coord));
  }
  return ranks;
}

int64_t DeviceMesh::group_size(std::span<const int64_t> axes) const {
  int64_t size = 1;
  for (int64_t axis : axes) size *= axes_[static_cast<size_t>(axis)].size;
  return size;
}

int64_t DeviceMesh::index_in_group(std::span<const int64_t> axes, std::span<const int64_t> coordinate) const {
  int64_t index = 0;
  for (int64_t axis : axes) {
    size_t a = static_cast<size_t>(axis);
    index = index * axes_[a].size + coordinate[a];
  }
  return index;
}

DeviceMesh without_trivial_axes(const DeviceMesh& mesh) {
  std::vector<MeshAxis> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1) axes.push_back(axis);
  }
  return DeviceMesh(std::move(axes));
}

std::string to_string(const DeviceMesh& mesh) {
  std::string text = "mesh [";
  for (size_t i = 0; i < mesh.num_axes(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ", ", mesh.axes()[i].name, mesh.axes()[i].size);
  }
  return text + "]";
}

std::optional<DeviceMesh> parse_mesh(std::string_view text) {
  text = trim(text);
  if (!text.empty() && text.front() == '[') {
    if (text.back() != ']') return std::nullopt;
    text = text.substr(1, text.size() - 2);
  }
  std::vector<MeshAxis> axes;
  std::set<std::string> names;
  while (!trim(text).empty()) {
    size_t comma = text.find(',');
    std::string_view item = trim(text.substr(0, comma));
    size_t equals = item.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    MeshAxis axis;
    axis.name = std::string(trim(item.substr(0, equals)));
    std::string_view number = trim(item.substr(equals + 1));
    std::optional<int64_t> size = parse_number<int64_t>(number);
    if (!size || *size < 1 || axis.name.empty()) return std::nullopt;
    axis.size = *size;
    if (!names.insert(axis.name).second) return std::nullopt;
    axes.push_back(axis);
    if (comma == std::string_view::npos) break;
    text = text.substr(comma + 1);
    if (trim(text).empty()) return std::nullopt;
  }
  return DeviceMesh(std::move(axes));
}

std::string axes_name(const DeviceMesh& mesh, std::span<const int64_t> axes) {
  std::string text;
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::string& name = mesh.axes()[static_cast<size_t>(axes[i])].name;
    std::string_view user = user_axis(name);
    auto of_user = [&](const MeshAxis& axis) { return user_axis(axis.name) == user; };
    int64_t all = std::count_if(mesh.axes().begin(), mesh.axes().end(), of_user);
    int64_t here = std::count_if(axes.begin(), axes.end(),
                                 [&](int64_t a) { return of_user(mesh.axes()[static_cast<size_t>(a)]); });
    std::string part = all == here ? std::string(user) : name;
    bool repeated = i > 0 && all == here && user_axis(mesh.axes()[static_cast<size_t>(axes[i - 1])].name) == user;
    if (repeated) continue;
    text += (text.empty() ? "" : "+") + part;
  }
  return text;
}

}  // namespace tpc

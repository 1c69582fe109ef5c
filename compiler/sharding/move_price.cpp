#include "compiler/sharding/move_price.h"

#include <algorithm>
#include <cmath>

#include "compiler/core/check.h"

namespace tpc {

int64_t MovePrice::operator()(const Move& move, const Shape& shape, int64_t element_bytes,
                              const DeviceMesh& mesh) const {
  if (!communicates(move.kind)) return 0;
  int64_t bytes = max_received_elements(move, shape, mesh) * element_bytes;
  if (links_.empty()) return bytes;
  const AxisLink* slowest = nullptr;
  double latency = 0;
  for (int64_t axis : move.axes) {
    std::string_view name = user_axis(mesh.axes()[static_cast<size_t>(axis)].name);
    auto link = std::find_if(links_.begin(), links_.end(), [&](const AxisLink& item) { return item.axis == name; });
    TPC_CHECK(link != links_.end(), "axis \"{}\" has no link", name);
    if (slowest == nullptr || link->bytes_per_second < slowest->bytes_per_second) slowest = &*link;
    latency = std::max(latency, link->latency_seconds);
  }
  auto steps = static_cast<double>(mesh.group_size(move.axes) - 1) * (move.kind == MoveKind::kAllReduce ? 2 : 1);
  double seconds = steps * latency + static_cast<double>(bytes) / slowest->bytes_per_second;
  return std::llround(seconds * 1e12);
}

}  // namespace tpc

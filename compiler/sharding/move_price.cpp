#include "compiler/sharding/move_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/core/check.h"
#include "compiler/core/text_parts.h"

namespace tpc {
namespace {

std::string_view take_part(std::string_view& text, char separator) {
  std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

bool read_number(std::string_view text, double& number) {
  std::optional<double> read = parse_number<double>(text);
  if (read) number = *read;
  return read && std::isfinite(number) && number >= 0;
}

}  // namespace

std::string links_text(const std::vector<AxisLink>& links) {
  std::string text;
  for (const AxisLink& link : links) {
    text += fmt::format("{}{}:{}:{}", text.empty() ? "" : ",", link.axis, link.bytes_per_second, link.latency_seconds);
  }
  return text;
}

std::optional<std::vector<AxisLink>> parse_links(std::string_view text) {
  std::vector<AxisLink> links;
  while (!text.empty()) {
    std::string_view item = take_part(text, ',');
    AxisLink link;
    link.axis = std::string(take_part(item, ':'));
    bool is_whole = !link.axis.empty() && read_number(take_part(item, ':'), link.bytes_per_second) &&
                    read_number(item, link.latency_seconds) && link.bytes_per_second > 0;
    if (!is_whole) return std::nullopt;
    links.push_back(std::move(link));
  }
  return links;
}

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

/// What a move costs: the quantity that conversions and strategies minimise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/sharding/collective.h"

namespace tpc {

/// The link over which the ranks of a mesh axis talk.
struct AxisLink {
  std::string axis;  ///< as the user named it: "tp"
  double bytes_per_second = 0;
  double latency_seconds = 0;
  bool operator==(const AxisLink&) const = default;
};

/// "tp:4.5e+11:3e-06,dp:...": axis, bytes a second, seconds of latency, in text that reads back.
std::string links_text(const std::vector<AxisLink>& links);
/// nullopt when malformed.
std::optional<std::vector<AxisLink>> parse_links(std::string_view text);

/// Without links: bytes that the fullest rank receives. With links: picoseconds, steps * latency + bytes / bandwidth,
/// where a ring takes n - 1 steps (an all_reduce twice as many); a group over several axes goes at the pace of the
/// slowest.
class MovePrice {
 public:
  MovePrice() = default;
  /// One link for every axis of the mesh that is asked about.
  explicit MovePrice(std::vector<AxisLink> links) : links_(std::move(links)) {}

  bool is_time() const { return !links_.empty(); }
  const std::vector<AxisLink>& links() const { return links_; }
  /// 0 for local moves.
  int64_t operator()(const Move& move, const Shape& shape, int64_t element_bytes, const DeviceMesh& mesh) const;

  bool operator==(const MovePrice&) const = default;

 private:
  std::vector<AxisLink> links_;
};

}  // namespace tpc

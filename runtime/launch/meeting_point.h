/// Where the ranks of a run find rank 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tpc {

/// A host, as a name or an address of either family, and a port.
struct MeetingPoint {
  std::string host;
  int port = 0;
  bool operator==(const MeetingPoint&) const = default;
};

/// `node1:29500`, `10.0.0.1:29500`, `[::1]:29500`; nullopt for anything else. Ports are 1 to 65535. An address of
/// version 6 needs its brackets, since its last part could be the port.
std::optional<MeetingPoint> parse_meeting_point(std::string_view text);

/// The same text back.
std::string to_string(const MeetingPoint& point);

/// Whether the host is written as one that never leaves the machine: "localhost", 127.x.y.z, ::1.
bool is_this_machine(const MeetingPoint& point);

}  // namespace tpc

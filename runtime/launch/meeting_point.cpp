#include "runtime/launch/meeting_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "compiler/core/text_parts.h"

namespace tpc {

std::optional<MeetingPoint> parse_meeting_point(std::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::optional<int> port = parse_number<int>(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  bool has_colon = host.find(':') != std::string_view::npos;
  bool is_odd = std::any_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isspace(c) != 0 || std::iscntrl(c) != 0 || c == '[' || c == ']' || c == '/';
  });
  if (host.empty() || is_odd || has_colon != has_brackets) return std::nullopt;
  return MeetingPoint{std::string(host), *port};
}

std::string to_string(const MeetingPoint& point) {
  bool is_version_6 = point.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_version_6 ? "[" : "", point.host, is_version_6 ? "]" : "", point.port);
}

bool is_this_machine(const MeetingPoint& point) {
  bool is_version_4 = point.host.find_first_not_of("0123456789.") == std::string::npos;
  return point.host == "localhost" || point.host == "::1" || (is_version_4 && point.host.starts_with("127."));
}

}  // namespace tpc

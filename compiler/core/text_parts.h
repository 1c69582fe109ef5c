/// Texts in parts: lists and numbers on the command line, in plans and in formulas.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

/// The parts between separators, at least one: "a,,b" -> "a", "", "b"; "" -> "".
std::vector<std::string> split(std::string_view text, char separator);

/// The number that the whole text spells; nullopt when it does not, or when the type cannot hold it.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tpc

/// Text to JSON: what nlohmann accepts, and stricter (no duplicate keys, bounded nesting), with places in the messages.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tpc {

/// Objects and lists within one another at most this deep.
constexpr int kDeepestNesting = 64;

/// Parses `text`. Throws UserError, at the byte where reading stopped, for a syntax error, a number beyond double or
/// too deep nesting; and, at their keys, for duplicate members (all of them in one error).
nlohmann::json parse_json(const std::string& text, const std::string& file);

}  // namespace tpc

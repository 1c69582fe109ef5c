/// Attributes of a node: a small ordered map from name to value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tpc {

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

/// Typed getters throw InternalError when the attribute is absent or of another type: the frontend and the plan reader
/// have checked with a place in the file before.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> items) : items_(items) {}

  void set(std::string name, Attribute value) { items_.insert_or_assign(std::move(name), std::move(value)); }
  void erase(const std::string& name) { items_.erase(name); }
  bool has(std::string_view name) const { return items_.find(name) != items_.end(); }

  bool get_bool(std::string_view name) const;
  int64_t get_int(std::string_view name) const;
  double get_double(std::string_view name) const;
  const std::string& get_string(std::string_view name) const;
  const std::vector<int64_t>& get_ints(std::string_view name) const;

  const std::map<std::string, Attribute, std::less<>>& items() const { return items_; }
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Attribute, std::less<>> items_;
};

/// `true`, `3`, `0.1` (always with a point or exponent, shortest that reads back), `"text"`, `[1, 2]`.
std::string to_string(const Attribute& attribute);
/// Reads to_string's form; nullopt when malformed.
std::optional<Attribute> parse_attribute(std::string_view text);

}  // namespace tpc

#include "compiler/ir/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "compiler/core/check.h"

namespace tpc {
namespace {

template <class T>
const T& get(const Attributes& attributes, std::string_view name, std::string_view type) {
  auto item = attributes.items().find(name);
  TPC_CHECK(item != attributes.items().end(), "no attribute \"{}\"", name);
  const T* value = std::get_if<T>(&item->second);
  TPC_CHECK(value != nullptr, "attribute \"{}\" is {}, not {}", name, to_string(item->second), type);
  return *value;
}

std::string double_text(double value) {
  std::string text = fmt::format("{}", value);
  bool is_marked = !std::isfinite(value) || text.find_first_of(".e") != std::string::npos;
  return is_marked ? text : text + ".0";
}

// The escapes are JSON's, so that quoted text can be pasted between a model file and a printed graph.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

template <class Integer>
std::optional<Integer> parse_integer(std::string_view text, int base = 10) {
  Integer value{};
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value, base);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

// Without a mark ("inf" and "nan" have their n) the text is an integer too large for us, not a real number.
std::optional<double> parse_double(std::string_view text) {
  if (text.find_first_of(".en") == std::string_view::npos) return std::nullopt;
  double value = 0;
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

std::optional<std::string> parse_quoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') return std::nullopt;
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    switch (text[i]) {
      case '"':
      case '\\':
        result += text[i];
        break;
      case 'n':
        result += '\n';
        break;
      case 't':
        result += '\t';
        break;
      case 'u': {
        std::optional<unsigned> code = parse_integer<unsigned>(text.substr(i + 1, 4), 16);
        if (text.size() - i <= 4 || !code || *code > 0x7f) return std::nullopt;
        result += static_cast<char>(*code);
        i += 4;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return result;
}

std::optional<std::vector<int64_t>> parse_ints(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<int64_t> result;
  if (text.find_first_not_of(' ') == std::string_view::npos) return result;
  while (true) {
    size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    std::optional<int64_t> value = parse_integer<int64_t>(item);
    if (!value) return std::nullopt;
    result.push_back(*value);
    if (comma == std::string_view::npos) return result;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

bool Attributes::get_bool(std::string_view name) const { return get<bool>(*this, name, "a boolean"); }
int64_t Attributes::get_int(std::string_view name) const { return get<int64_t>(*this, name, "an integer"); }
double Attributes::get_double(std::string_view name) const { return get<double>(*this, name, "a real number"); }
const std::string& Attributes::get_string(std::string_view name) const { return get<std::string>(*this, name, "text"); }
const std::vector<int64_t>& Attributes::get_ints(std::string_view name) const {
  return get<std::vector<int64_t>>(*this, name, "a list of integers");
}

std::string to_string(const Attribute& attribute) {
  if (const bool* flag = std::get_if<bool>(&attribute)) return *flag ? "true" : "false";
  if (const int64_t* number = std::get_if<int64_t>(&attribute)) return fmt::format("{}", *number);
  if (const double* number = std::get_if<double>(&attribute)) return double_text(*number);
  if (const std::string* text = std::get_if<std::string>(&attribute)) return quoted(*text);
  return fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(attribute), ", "));
}

std::optional<Attribute> parse_attribute(std::string_view text) {
  if (text == "true") return Attribute{true};
  if (text == "false") return Attribute{false};
  if (auto value = parse_quoted(text)) return Attribute{*value};
  if (auto value = parse_ints(text)) return Attribute{*value};
  if (auto value = parse_integer<int64_t>(text)) return Attribute{*value};
  if (auto value = parse_double(text)) return Attribute{*value};
  return std::nullopt;
}

}  // namespace tpc

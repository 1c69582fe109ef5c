#include "runtime/launch/host_list.h"

#include <fmt/format.h>

#include "compiler/core/text_parts.h"

namespace tpc {
namespace {

constexpr size_t kMostHosts = 65536;

using Names = std::vector<std::string>;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// What stands in one pair of brackets: "1,03-05" -> 1 03 04 05.
std::optional<Names> expand_brackets(std::string_view text) {
  Names numbers;
  for (const std::string& range : split(text, ',')) {
    size_t dash = range.find('-');
    std::string first = range.substr(0, dash);
    std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
    std::optional<int64_t> low = parse_number<int64_t>(first);
    std::optional<int64_t> high = parse_number<int64_t>(last);
    if (!is_digits(first) || !is_digits(last) || !low || !high || *low > *high) return std::nullopt;
    if (static_cast<size_t>(*high - *low) >= kMostHosts - numbers.size()) return std::nullopt;
    for (int64_t i = *low; i <= *high; ++i) numbers.push_back(fmt::format("{:0{}}", i, first.size()));
  }
  return numbers;
}

/// Every name followed by every ending.
std::optional<Names> joined(const Names& names, const Names& endings) {
  if (names.size() * endings.size() > kMostHosts) return std::nullopt;
  Names all;
  for (const std::string& name : names) {
    for (const std::string& ending : endings) all.push_back(name + ending);
  }
  return all;
}

/// One entry of the list, between commas that stand in no bracket.
std::optional<Names> expand_entry(std::string_view entry) {
  if (entry.empty()) return std::nullopt;
  std::optional<Names> names = Names{""};
  while (!entry.empty() && names) {
    size_t open = entry.find('[');
    std::string_view plain = entry.substr(0, open);
    if (plain.find_first_of("] \t") != std::string_view::npos) return std::nullopt;
    names = joined(*names, {std::string(plain)});
    if (open == std::string_view::npos) break;
    size_t close = entry.find(']', open);
    if (close == std::string_view::npos) return std::nullopt;
    std::optional<Names> numbers = expand_brackets(entry.substr(open + 1, close - open - 1));
    if (!numbers) return std::nullopt;
    names = joined(*names, *numbers);
    entry.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

std::optional<Names> expand_host_list(std::string_view text) {
  Names hosts;
  size_t begin = 0;
  bool is_inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      if (text[i] == '[') is_inside = true;
      if (text[i] == ']') is_inside = false;
      if (text[i] != ',' || is_inside) continue;
    }
    std::optional<Names> names = expand_entry(text.substr(begin, i - begin));
    if (!names || hosts.size() + names->size() > kMostHosts) return std::nullopt;
    hosts.insert(hosts.end(), names->begin(), names->end());
    begin = i + 1;
  }
  return hosts;
}

std::optional<std::vector<int64_t>> expand_task_counts(std::string_view text) {
  std::vector<int64_t> counts;
  for (const std::string& part : split(text, ',')) {
    size_t open = part.find("(x");
    std::optional<int64_t> count = parse_number<int64_t>(part.substr(0, open));
    std::optional<size_t> times = 1;
    if (open != std::string::npos) {
      if (part.back() != ')') return std::nullopt;
      times = parse_number<size_t>(part.substr(open + 2, part.size() - open - 3));
    }
    if (!count || *count < 1 || !times || *times > kMostHosts - counts.size()) return std::nullopt;
    counts.insert(counts.end(), *times, *count);
  }
  return counts;
}

}  // namespace tpc

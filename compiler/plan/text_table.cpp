#include "compiler/plan/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tpc {
namespace {

std::string scaled(double value, const std::array<std::string_view, 6>& units) {
  size_t unit = 0;
  // 999.5 would print as "1e+03".
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  std::string_view suffix = units[unit];
  return fmt::format("{}{}{}", short_number(std::stod(fmt::format("{:.3g}", value))), suffix.empty() ? "" : " ",
                     suffix);
}

}  // namespace

void TextTable::add_row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }

void TextTable::add_line(std::string text) { rows_.push_back({{std::move(text)}, true}); }

std::string TextTable::text(size_t indent) const {
  std::vector<size_t> widths(alignment_.size(), 0);
  for (const Row& row : rows_) {
    for (size_t i = 0; !row.is_line && i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row.cells[i]));
    }
  }
  std::string result;
  for (const Row& row : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.cells.size(); ++i) {
      if (i > 0) line += "  ";
      std::string padding(row.is_line ? 0 : widths[i] - display_width(row.cells[i]), ' ');
      line += alignment_[i] == 'r' ? padding + row.cells[i] : row.cells[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // continuation bytes take no room
  }));
}

std::string grouped(int64_t number) {
  std::string digits = fmt::format("{}", number);
  size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string bytes_text(double bytes) { return scaled(bytes, {"B", "kB", "MB", "GB", "TB", "PB"}); }

std::string count_text(double count) { return scaled(count, {"", "k", "M", "G", "T", "P"}); }

std::string phi_text(double volume) {
  if (volume == 0) return "0";
  return volume < 0.0005 ? "~0" : short_number(volume) + "Φ";
}

std::string short_number(double value) {
  if (value >= 10000) return grouped(static_cast<int64_t>(value + 0.5));
  return fmt::format("{:.4g}", value);
}

}  // namespace tpc

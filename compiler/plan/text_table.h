/// Aligned columns for the terminal, and numbers as people read them.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

/// Rows of cells in columns that are as wide as their widest cell, two spaces apart. Widths count characters (UTF-8
/// code points).
class TextTable {
 public:
  /// One letter a column: 'l' left, 'r' right aligned.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)) {}

  /// Missing cells at the end are empty.
  void add_row(std::vector<std::string> cells);
  /// A line across all columns, which does not widen them.
  void add_line(std::string text);
  bool empty() const { return rows_.empty(); }

  /// Every line ends in a newline and starts with `indent` spaces; no line ends in spaces.
  std::string text(size_t indent = 0) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_line = false;
  };

  std::string alignment_;
  std::vector<Row> rows_;
};

/// Code points of a UTF-8 text.
size_t display_width(std::string_view text);

/// 65536 -> "65,536".
std::string grouped(int64_t number);
/// 65536 -> "65.5 kB", 12 -> "12 B": decimal units, three digits.
std::string bytes_text(double bytes);
template <std::integral Count>
std::string bytes_text(Count bytes) {
  return bytes_text(static_cast<double>(bytes));
}
/// 426624 -> "427 k", 124439808 -> "124 M".
std::string count_text(double count);
/// 2 -> "2Φ", 0.03125 -> "0.03125Φ"; "0" for nothing, "~0" below half a thousandth.
std::string phi_text(double volume);
/// Up to four significant digits without trailing zeros.
std::string short_number(double value);

}  // namespace tpc

/// A JSON text as the user wrote it: where a JSON pointer leads, and the line that stands there. Nothing is kept beside
/// the text; every question scans it, since it is asked only when a message is printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tpc {

class SourceText {
 public:
  /// `text` must outlive this object. It need not be valid JSON.
  explicit SourceText(std::string_view text) : text_(text) {}

  struct Span {
    size_t offset = 0;
    size_t length = 0;
    bool operator==(const Span&) const = default;
  };

  /// 1-based; columns count characters (UTF-8 code points), not bytes.
  struct Position {
    int64_t line = 1;
    int64_t column = 1;
    bool operator==(const Position&) const = default;
  };

  /// Bytes of the value at `pointer` ("" is the whole document), or of the member's name when `at_key`. Of duplicate
  /// members the last counts, as in the parsed document. nullopt when the pointer leads nowhere.
  std::optional<Span> locate(std::string_view pointer, bool at_key = false) const;

  /// Place of a byte; the end of the text when `offset` lies beyond it.
  Position position(size_t offset) const;

  /// The line that holds byte `offset`, without its end-of-line characters.
  std::string_view line_at(size_t offset) const;

 private:
  std::string_view text_;
};

}  // namespace tpc

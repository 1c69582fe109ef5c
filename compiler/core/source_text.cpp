#include "compiler/core/source_text.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tpc {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

void append_utf8(std::string& out, unsigned code) {
  auto byte = [&](unsigned bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (code < 0x80U) {
    byte(code);
  } else if (code < 0x800U) {
    byte(0xC0U | code >> 6U);
    byte(0x80U | (code & 0x3FU));
  } else {
    byte(0xE0U | code >> 12U);
    byte(0x80U | (code >> 6U & 0x3FU));
    byte(0x80U | (code & 0x3FU));
  }
}

// A forgiving reader of JSON: it finds where values begin and end and checks nothing else.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), at_(text.starts_with(kByteOrderMark) ? 3 : 0) { skip_space(); }

  size_t at() const { return at_; }
  void jump(size_t offset) { at_ = offset; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  // Steps over `c` and the space around it.
  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    skip_space();
    return true;
  }

  void skip_string() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
  }

  // The string that starts here, escapes resolved (surrogate pairs are not: no name of ours has them).
  std::string read_string() {
    size_t begin = at_ + 1;
    skip_string();
    std::string_view raw = text_.substr(begin, at_ - 1 - begin);
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 == raw.size()) {
        out += raw[i];
        continue;
      }
      char escape = raw[++i];
      static constexpr std::string_view kEscapes = "bfnrt";
      static constexpr std::string_view kMeanings = "\b\f\n\r\t";
      size_t index = kEscapes.find(escape);
      if (escape == 'u' && i + 4 < raw.size()) {
        append_utf8(out, static_cast<unsigned>(std::strtoul(std::string(raw.substr(i + 1, 4)).c_str(), nullptr, 16)));
        i += 4;
      } else {
        out += index == std::string_view::npos ? escape : kMeanings[index];
      }
    }
    return out;
  }

  // Steps over one value of any kind. Iterative: depth is the user's choice.
  void skip_value() {
    size_t depth = 0;
    do {
      skip_space();
      char c = peek();
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return;
        --depth;
        ++at_;
      } else if (c == ',' || c == ':') {
        if (depth == 0) return;
        ++at_;
      } else {
        while (at_ < text_.size() && !is_space(peek()) &&
               std::string_view(",:{}[]\"").find(peek()) == std::string_view::npos)
          ++at_;
      }
    } while (depth > 0 && at_ < text_.size());
  }

 private:
  std::string_view text_;
  size_t at_;
};

struct Place {
  size_t value = 0;
  SourceText::Span key;
};

std::optional<Place> find_member(Scanner& scanner, const std::string& name) {
  std::optional<Place> found;
  if (!scanner.accept('{')) return found;
  while (scanner.peek() == '"') {
    size_t key = scanner.at();
    bool matches = scanner.read_string() == name;
    size_t key_length = scanner.at() - key;
    if (!scanner.accept(':')) break;
    if (matches) found = Place{scanner.at(), {key, key_length}};
    scanner.skip_value();
    if (!scanner.accept(',')) break;
  }
  return found;
}

std::optional<Place> find_element(Scanner& scanner, const std::string& token) {
  if (!scanner.accept('[')) return std::nullopt;
  if (token.empty() || token.size() > 9 ||
      !std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  for (int index = std::stoi(token); index > 0; --index) {
    scanner.skip_value();
    if (!scanner.accept(',')) return std::nullopt;
  }
  if (scanner.peek() == ']' || scanner.peek() == '\0') return std::nullopt;
  return Place{scanner.at(), {scanner.at(), 0}};
}

std::optional<std::vector<std::string>> split_pointer(std::string_view pointer) {
  std::vector<std::string> tokens;
  if (pointer.empty()) return tokens;
  if (pointer[0] != '/') return std::nullopt;
  for (size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
    } else if (pointer[i] == '~' && i + 1 < pointer.size()) {
      tokens.back() += pointer[++i] == '1' ? '/' : '~';
    } else {
      tokens.back() += pointer[i];
    }
  }
  return tokens;
}

}  // namespace

std::optional<SourceText::Span> SourceText::locate(std::string_view pointer, bool at_key) const {
  auto tokens = split_pointer(pointer);
  if (!tokens) return std::nullopt;
  Scanner scanner(text_);
  Place place{scanner.at(), {scanner.at(), 0}};
  for (const std::string& token : *tokens) {
    std::optional<Place> next = scanner.peek() == '[' ? find_element(scanner, token) : find_member(scanner, token);
    if (!next) return std::nullopt;
    place = *next;
    scanner.jump(place.value);
  }
  if (at_key && place.key.length > 0) return place.key;
  scanner.skip_value();
  return Span{place.value, scanner.at() - place.value};
}

SourceText::Position SourceText::position(size_t offset) const {
  Position position;
  for (char c : text_.substr(0, std::min(offset, text_.size()))) {
    if (c == '\n') {
      ++position.line;
      position.column = 1;
    } else if (!continues_character(c)) {
      ++position.column;
    }
  }
  return position;
}

std::string_view SourceText::line_at(size_t offset) const {
  offset = std::min(offset, text_.size());
  size_t before = offset == 0 ? std::string_view::npos : text_.rfind('\n', offset - 1);
  size_t begin = before == std::string_view::npos ? 0 : before + 1;
  std::string_view line = text_.substr(begin, std::min(text_.find('\n', offset), text_.size()) - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace tpc

#include "compiler/frontend/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "compiler/frontend/json_node.h"

namespace tpc {
namespace {

using Json = nlohmann::json;

// Input that tells how far the parser has read: neither the callback nor every exception does.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  const char& operator*() const { return *at; }
  CountingIterator& operator++() {
    *furthest = ++at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

[[noreturn]] void fail_at_byte(const std::string& file, size_t byte, std::string message) {
  Diagnostic diagnostic{Severity::kError, {file, ""}, std::move(message), {}};
  diagnostic.byte = static_cast<long long>(byte);
  throw UserError(std::move(diagnostic));
}

// Follows the parser through the document to know the pointer of every key.
class DuplicateFinder {
 public:
  explicit DuplicateFinder(const std::string& file) : file_(file) {}

  void start_container(bool is_object) {
    enter_value();
    levels_.push_back({is_object, {}, "", 0});
  }
  void end_container() { levels_.pop_back(); }
  void value() { enter_value(); }

  void key(const std::string& name) {
    Level& level = levels_.back();
    level.token = name;
    if (level.keys.insert(name).second) return;
    SourceLoc loc{file_, pointer(), /*at_key=*/true};
    Diagnostic diagnostic{Severity::kError, std::move(loc), fmt::format("\"{}\" stands twice in one object", name), {}};
    bool reported = std::any_of(duplicates.begin(), duplicates.end(),
                                [&](const Diagnostic& earlier) { return earlier.loc == diagnostic.loc; });
    if (!reported) duplicates.push_back(std::move(diagnostic));
  }

  size_t depth() const { return levels_.size(); }

  std::vector<Diagnostic> duplicates;

 private:
  struct Level {
    bool is_object;
    std::set<std::string> keys;
    std::string token;
    int64_t elements;
  };

  void enter_value() {
    if (levels_.empty() || levels_.back().is_object) return;
    levels_.back().token = std::to_string(levels_.back().elements++);
  }

  std::string pointer() const {
    std::string out;
    for (const Level& level : levels_) out += "/" + escape_pointer_token(level.token);
    return out;
  }

  const std::string& file_;
  std::vector<Level> levels_;
};

// "[json.exception...] parse error at line 3, column 5: syntax error while parsing value - invalid literal; last read:
// 'tru}'; expected ..." -> "invalid literal; expected ...".
std::string shortened(std::string message) {
  if (size_t dash = message.find(" - "); dash != std::string::npos) message.erase(0, dash + 3);
  if (size_t last_read = message.find("; last read: '"); last_read != std::string::npos) {
    size_t expected = message.rfind("'; expected ");
    message.erase(last_read, expected == std::string::npos ? std::string::npos : expected + 1 - last_read);
  }
  // After a member or element a comma is possible too, and most often what is missing.
  for (std::string_view end : {"expected '}'", "expected ']'"}) {
    if (message.ends_with(end)) message.insert(message.size() - 3, "',' or ");
  }
  return message;
}

// A string that came unexpectedly is marked at its first byte; the parser names its last.
size_t start_of_string(const std::string& text, size_t last) {
  for (size_t i = last; i-- > 0;) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) return i;
  }
  return last;
}

size_t start_of_number(const std::string& text, size_t end) {
  while (end > 0 && std::string_view("0123456789+-.eE").find(text[end - 1]) != std::string_view::npos) --end;
  return end;
}

}  // namespace

Json parse_json(const std::string& text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    fail_at_byte(file, 0, "the file is empty; wanted a JSON object");
  }
  const char* furthest = text.data();
  auto bytes_read = [&] { return static_cast<size_t>(furthest - text.data()); };
  DuplicateFinder finder(file);
  auto follow = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (finder.depth() >= static_cast<size_t>(kDeepestNesting)) {
          fail_at_byte(file, bytes_read() - 1, fmt::format("objects and lists nest deeper than {}", kDeepestNesting));
        }
        finder.start_container(event == Json::parse_event_t::object_start);
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        finder.end_container();
        break;
      case Json::parse_event_t::key:
        finder.key(parsed.get_ref<const std::string&>());
        break;
      case Json::parse_event_t::value:
        finder.value();
        break;
    }
    return true;
  };

  Json json;
  try {
    CountingIterator begin{text.data(), &furthest};
    CountingIterator end{text.data() + text.size(), &furthest};
    json = Json::parse(begin, end, follow);
  } catch (const Json::parse_error& error) {
    std::string message = shortened(error.what());
    size_t byte = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    if (message.starts_with("unexpected string literal")) byte = start_of_string(text, byte);
    fail_at_byte(file, byte, "not valid JSON: " + message);
  } catch (const Json::out_of_range&) {
    size_t end = std::min(bytes_read(), text.size());
    // The lexer looks one character beyond a number, except at the end of the text.
    if (end > 0 && std::string_view("0123456789").find(text[end - 1]) == std::string_view::npos) --end;
    fail_at_byte(file, start_of_number(text, end), "the number is too large");
  }
  if (!finder.duplicates.empty()) throw UserError(finder.duplicates);
  return json;
}

}  // namespace tpc

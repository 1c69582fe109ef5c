#include "compiler/plan/repeated_blocks.h"

#include <fmt/format.h>

#include <charconv>

namespace tpc {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

struct Numbered {
  std::string_view stem;
  int64_t number = -1;
};

/// "block12" is block, 12; the number is -1 when the text does not end in one.
Numbered split_number(std::string_view text) {
  size_t digits = text.size();
  while (digits > 0 && is_digit(text[digits - 1])) --digits;
  Numbered result{text.substr(0, digits), -1};
  std::from_chars(text.data() + digits, text.data() + text.size(), result.number);
  return result;
}

/// Length of the block's name at the start of `layer`; 0 when it stands in none.
size_t block_length(std::string_view layer) {
  for (size_t dot = layer.rfind('.'); dot != std::string_view::npos && dot > 0; dot = layer.rfind('.', dot - 1)) {
    if (is_digit(layer[dot - 1])) return dot;
  }
  return 0;
}

}  // namespace

std::string block_of(std::string_view layer) {
  size_t length = block_length(layer);
  return std::string(length == 0 ? layer : layer.substr(0, length));
}

std::string name_in_block(std::string_view layer) {
  size_t length = block_length(layer);
  return std::string(length == 0 ? layer : layer.substr(length + 1));
}

std::string relative_to_block(std::string_view text, std::string_view block) {
  Numbered own = split_number(block);
  if (own.number < 0 || own.stem.empty()) return std::string(text);
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    bool starts_word = at == 0 || !is_word(text[at - 1]);
    size_t digits = at + own.stem.size();
    size_t end = digits;
    if (starts_word && text.substr(at).starts_with(own.stem)) {
      while (end < text.size() && is_digit(text[end])) ++end;
    }
    bool is_block = end > digits && end < text.size() && text[end] == '.';
    if (!is_block) {
      result += text[at++];
      continue;
    }
    int64_t distance = split_number(text.substr(at, end - at)).number - own.number;
    if (distance != 0) result += fmt::format("{}{{i{:+}}}.", own.stem, distance);
    at = end + 1;
  }
  return result;
}

std::string_view without_number(std::string_view tensor) {
  Numbered parts = split_number(tensor);
  bool is_numbered = parts.number >= 0 && parts.stem.ends_with('~');
  return is_numbered ? parts.stem.substr(0, parts.stem.size() - 1) : tensor;
}

std::vector<BlockRun> find_runs(const std::vector<std::string>& names, const std::vector<std::string>& contents) {
  std::vector<BlockRun> runs;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!runs.empty()) {
      Numbered before = split_number(names[i - 1]);
      Numbered here = split_number(names[i]);
      bool follows = here.number >= 0 && before.number >= 0 && here.stem == before.stem &&
                     (here.number == before.number + 1 || here.number + 1 == before.number);
      if (follows && contents[i] == contents[i - 1]) {
        ++runs.back().count;
        continue;
      }
    }
    runs.push_back({i, 1});
  }
  return runs;
}

std::string run_name(const std::vector<std::string>& names, const BlockRun& run) {
  if (run.count == 1) return names[run.first];
  Numbered first = split_number(names[run.first]);
  Numbered last = split_number(names[run.first + run.count - 1]);
  if (last.number < first.number) std::swap(first, last);
  return fmt::format("{}{}..{} (x{})", first.stem, first.number, last.number, run.count);
}

}  // namespace tpc

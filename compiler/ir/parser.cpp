#include "compiler/ir/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace tpc {
namespace {

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class GraphParser {
 public:
  GraphParser(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  Graph run() {
    skip_empty_lines();
    parse_header();
    while (skip_empty_lines()) {
      parse_line();
      end_line();
    }
    take_values();
    return std::move(graph_);
  }

 private:
  // ---- The cursor. Every piece of the grammar skips the spaces before it.

  [[noreturn]] void fail(size_t at, std::string message) const {
    Diagnostic diagnostic{Severity::kError, {file_, ""}, std::move(message), {}};
    diagnostic.byte = static_cast<long long>(at);
    throw UserError(std::move(diagnostic));
  }

  /// What stands at the cursor, for messages: a word, a single character, or the end of the line.
  std::string found() const {
    if (at_line_end()) return "the end of the line";
    size_t end = position_;
    while (end < text_.size() && is_word_char(text_[end])) ++end;
    return fmt::format("\"{}\"", text_.substr(position_, std::max<size_t>(end - position_, 1)));
  }

  [[noreturn]] void fail_wanted(std::string_view wanted) const {
    fail(position_, fmt::format("wanted {}, found {}", wanted, found()));
  }

  bool at_line_end() const { return position_ >= text_.size() || text_[position_] == '\n'; }

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }

  /// Moves to the next line that says something; false at the end of the text.
  bool skip_empty_lines() {
    while (true) {
      skip_spaces();
      if (position_ >= text_.size()) return false;
      if (text_[position_] == '#') position_ = std::min(text_.find('\n', position_), text_.size());
      if (!at_line_end()) return true;
      if (position_ < text_.size()) ++position_;
    }
  }

  void end_line() {
    skip_spaces();
    if (!at_line_end()) fail_wanted("the end of the line");
  }

  bool next_is(char c) {
    skip_spaces();
    return position_ < text_.size() && text_[position_] == c;
  }

  bool accept(char c) {
    if (!next_is(c)) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail_wanted(fmt::format("\"{}\"", c));
  }

  std::string_view peek_word() {
    skip_spaces();
    size_t end = position_;
    while (end < text_.size() && is_word_char(text_[end])) ++end;
    return std::string_view(text_).substr(position_, end - position_);
  }

  bool accept_word(std::string_view word) {
    if (peek_word() != word) return false;
    position_ += word.size();
    return true;
  }

  void expect_word(std::string_view word) {
    if (!accept_word(word)) fail_wanted(fmt::format("\"{}\"", word));
  }

  std::string_view expect_any_word(std::string_view wanted) {
    std::string_view word = peek_word();
    if (word.empty()) fail_wanted(wanted);
    position_ += word.size();
    return word;
  }

  // ---- Pieces

  /// From the cursor to the end of the quoted text, the bracket or the bare word there.
  std::string_view span() {
    skip_spaces();
    size_t end = position_;
    if (next_is('"')) {
      for (++end; end < text_.size() && text_[end] != '"' && text_[end] != '\n'; ++end) {
        if (text_[end] == '\\') ++end;
      }
      ++end;
    } else if (next_is('[')) {
      while (end < text_.size() && text_[end] != ']' && text_[end] != '\n') ++end;
      ++end;
    } else {
      while (end < text_.size() && std::string_view(" ,}\n").find(text_[end]) == std::string_view::npos) ++end;
    }
    return std::string_view(text_).substr(position_, std::min(end, text_.size()) - position_);
  }

  template <class T>
  T take_span(std::string_view wanted, std::optional<T> (*parse)(std::string_view)) {
    std::string_view piece = span();
    std::optional<T> value = parse(piece);
    if (!value) fail_wanted(wanted);
    position_ += piece.size();
    return *value;
  }

  static std::optional<std::string> parse_text(std::string_view piece) {
    std::optional<Attribute> value = parse_attribute(piece);
    return value && std::holds_alternative<std::string>(*value) ? std::optional(std::get<std::string>(*value))
                                                                : std::nullopt;
  }

  static std::optional<Shape> parse_shape(std::string_view piece) {
    std::optional<Attribute> value = parse_attribute(piece);
    return value && std::holds_alternative<Shape>(*value) ? std::optional(std::get<Shape>(*value)) : std::nullopt;
  }

  static std::optional<int64_t> parse_integer(std::string_view piece) {
    std::optional<Attribute> value = parse_attribute(piece);
    return value && std::holds_alternative<int64_t>(*value) ? std::optional(std::get<int64_t>(*value)) : std::nullopt;
  }

  std::string quoted_text() { return take_span<std::string>("quoted text", parse_text); }
  Shape shape() { return take_span<Shape>("a shape such as [2, 3]", parse_shape); }
  TensorSharding sharding() { return take_span<TensorSharding>("a sharding such as [S(0), R]", parse_sharding); }

  std::vector<std::string> dim_names() {
    std::vector<std::string> names;
    expect('(');
    do {
      names.push_back(quoted_text());
    } while (accept(','));
    expect(')');
    return names;
  }

  ValueId value_id() {
    skip_spaces();
    size_t start = position_;
    if (!accept('%')) fail_wanted("a value such as %3");
    ValueId id;
    auto [end, error] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), id.index);
    if (error != std::errc() || !id.is_valid()) fail_wanted("the number of a value");
    position_ = static_cast<size_t>(end - text_.data());
    first_mentions_.try_emplace(id, start);
    return id;
  }

  TensorType type() {
    std::optional<DType> dtype = parse_dtype(peek_word());
    if (!dtype) fail_wanted("a type such as f32[2, 3]");
    position_ += peek_word().size();
    return {*dtype, shape()};
  }

  OpKind op() {
    skip_spaces();
    size_t start = position_;
    std::string name(expect_any_word("an op"));
    if (std::optional<OpKind> kind = parse_op_kind(name)) return *kind;
    std::string near = nearest_word(name, op_names());
    fail(start,
         fmt::format("unknown op \"{}\"{}", name, near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near)));
  }

  Phase phase() {
    for (Phase candidate : {Phase::kForward, Phase::kBackward, Phase::kOptimizer}) {
      if (accept_word(to_string(candidate))) return candidate;
    }
    fail_wanted("forward, backward or optimizer");
  }

  // ---- Lines

  void parse_header() {
    expect_word("graph");
    graph_.name = quoted_text();
    if (accept_word("from")) graph_.source_file = quoted_text();
    end_line();
    if (skip_empty_lines() && accept_word("precision")) {
      skip_spaces();
      size_t start = position_;
      std::optional<Precision> precision = parse_precision(quoted_text());
      if (!precision) fail(start, "wanted \"f32\", \"bf16\" or \"bf16/bf16\"");
      graph_.precision = *precision;
      end_line();
    }
    if (skip_empty_lines() && accept_word("mesh")) {
      graph_.mesh = take_span<DeviceMesh>("a mesh such as [dp=2, tp=4]", parse_mesh);
      end_line();
    }
    if (skip_empty_lines() && accept_word("loss")) {
      graph_.loss = value_id();
      end_line();
    }
    if (skip_empty_lines() && accept_word("proof")) {
      graph_.proof = proof();
      end_line();
    }
  }

  SearchProof proof() {
    SearchProof proof;
    proof.objective = quoted_text();
    for (auto [word, field] : {std::pair{"price", &proof.price},
                               {"bound", &proof.bound},
                               {"memory", &proof.memory},
                               {"limit", &proof.memory_limit},
                               {"decisions", &proof.decisions},
                               {"choices", &proof.choices}}) {
      expect_word(word);
      *field = take_span<int64_t>("a whole number", parse_integer);
    }
    return proof;
  }

  void parse_line() {
    Node node;
    if (next_is('%')) {
      do {
        node.results.push_back(value_definition());
      } while (accept(','));
      bool is_unmade_value = !next_is('=') && node.results.size() == 1;
      if (is_unmade_value) return;
      expect('=');
    }
    node.op = op();
    parse_operands(node);
    if (accept('{')) parse_attributes(node);
    if (accept_word("uses")) {
      while (next_is('[')) node.operand_shardings.push_back(sharding());
    }
    node.phase = phase();
    if (next_is('"')) node.layer = quoted_text();
    if (accept_word("of")) node.differentiates = value_id();
    if (accept_word("pin")) node.annotation = annotation();
    if (accept_word("why")) node.why = quoted_text();
    if (accept('#')) node.origin = origin();
    graph_.nodes.push_back(std::move(node));
  }

  ValueId value_definition() {
    skip_spaces();
    size_t start = position_;
    ValueId id = value_id();
    Value value;
    value.name = quoted_text();
    expect(':');
    value.type = type();
    if (accept_word("dims")) value.dim_names = dim_names();
    if (accept('@')) value.sharding = sharding();
    if (accept_word("kept")) {
      while (next_is('[')) value.kept.push_back(sharding());
    }
    while (accept_word("via")) {
      std::vector<TensorSharding>& forms = value.via[static_cast<size_t>(phase())];
      while (next_is('[')) forms.push_back(sharding());
    }
    if (accept_word("local")) value.local_shape = shape();
    if (!values_.emplace(id, std::move(value)).second) fail(start, fmt::format("value %{} is made twice", id.index));
    return id;
  }

  void parse_operands(Node& node) {
    if (!next_is('%')) return;
    do {
      node.operands.push_back(value_id());
    } while (accept(','));
  }

  void parse_attributes(Node& node) {
    do {
      skip_spaces();
      size_t start = position_;
      std::string name(expect_any_word("the name of an attribute"));
      if (node.attributes.has(name)) fail(start, fmt::format("attribute \"{}\" is given twice", name));
      expect('=');
      node.attributes.set(name, take_span<Attribute>("a value: true, 3, 0.5, \"text\" or [1, 2]", parse_attribute));
    } while (accept(','));
    expect('}');
  }

  Annotation annotation() {
    Annotation result;
    result.layer = quoted_text();
    expect('{');
    while (!next_is('}')) {
      std::string use = quoted_text();
      result.uses.emplace_back(std::move(use), take_span<Placement>("a placement such as S(0)", parse_placement));
      if (!accept(',')) break;
    }
    expect('}');
    expect_word("at");
    result.pointer = quoted_text();
    return result;
  }

  std::string origin() {
    if (next_is('"')) return quoted_text();
    size_t end = std::min(text_.find('\n', position_), text_.size());
    std::string pointer = text_.substr(position_, end - position_);
    position_ = end;
    return pointer;
  }

  void take_values() {
    for (const auto& [id, position] : first_mentions_) {
      if (!values_.contains(id)) fail(position, fmt::format("value %{} is used but never made", id.index));
    }
    for (auto& [id, value] : values_) {
      ValueId next{static_cast<int32_t>(graph_.values.size())};
      if (id != next)
        fail(first_mentions_.at(id), fmt::format("value %{} is missing before %{}", next.index, id.index));
      graph_.values.push_back(std::move(value));
    }
  }

  const std::string& text_;
  const std::string& file_;
  size_t position_ = 0;
  Graph graph_;
  std::map<ValueId, Value> values_;
  std::map<ValueId, size_t> first_mentions_;
};

}  // namespace

Graph parse_graph(const std::string& text, const std::string& file) { return GraphParser(text, file).run(); }

}  // namespace tpc

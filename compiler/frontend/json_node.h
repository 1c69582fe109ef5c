/// Reading JSON with places: every getter either answers or throws a UserError that says where, what was found and what
/// was wanted. Nothing else in the frontend looks at JSON values.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/core/diagnostic.h"

namespace tpc {

/// "a/b~c" -> "a~1b~0c", as a token of a JSON pointer.
std::string escape_pointer_token(std::string_view token);

/// A value in a JSON document and its place. Cheap to copy; the document and the file name must outlive it.
class JsonNode {
 public:
  /// The whole document. `what` names it in messages ("the model").
  JsonNode(const nlohmann::json& document, const std::string& file, std::string what)
      : json_(&document), file_(&file), label_(std::move(what)) {}

  SourceLoc loc() const { return {*file_, pointer_}; }
  /// Place of the name of member `key`.
  SourceLoc key_loc(std::string_view key) const;
  const std::string& pointer() const { return pointer_; }
  const nlohmann::json& json() const { return *json_; }
  /// How messages call it: `"rate"` for a member, `element 2 of "inputs"` (from 0) in a list.
  const std::string& label() const { return label_; }

  bool is_object() const { return json_->is_object(); }
  bool is_array() const { return json_->is_array(); }
  bool is_string() const { return json_->is_string(); }
  bool is_integer() const { return json_->is_number_integer(); }

  bool has(std::string_view key) const { return find(key).has_value(); }
  std::optional<JsonNode> find(std::string_view key) const;
  /// Throws `"fc1" needs "out"` with `owner` as the name of this object.
  JsonNode required(std::string_view key, std::string_view owner) const;

  /// This value as the type that the name says.
  bool as_bool() const;
  double as_number() const;
  const std::string& as_string() const;
  /// Throws when it is not a whole number in [smallest, largest].
  int64_t as_int(int64_t smallest, int64_t largest) const;
  std::vector<JsonNode> elements() const;
  /// In canonical (sorted) order.
  std::vector<std::pair<std::string, JsonNode>> members() const;
  void expect_object() const;
  /// The string, which must be one of `allowed`.
  const std::string& as_word(const std::vector<std::string>& allowed) const;

  bool bool_or(std::string_view key, bool otherwise) const;
  double number_or(std::string_view key, double otherwise) const;
  std::string string_or(std::string_view key, std::string otherwise) const;

  /// Reports to `sink` every member that is not in `allowed`, with the nearest that is; true when there was one.
  bool report_unknown_keys(const std::vector<std::string>& allowed, std::string_view owner, DiagnosticSink& sink) const;

  /// The value in a message: `4.5`, `"abc"`, `a list`, `an object`, `null`.
  std::string found() const;
  [[noreturn]] void fail(std::string message, std::vector<Note> notes = {}) const;
  [[noreturn]] void fail_type(std::string_view wanted) const;

 private:
  JsonNode child(const nlohmann::json& json, std::string_view token, std::string label) const;

  const nlohmann::json* json_;
  const std::string* file_;
  std::string pointer_;
  std::string label_;
};

/// `; did you mean "ffn"?`, or "" when nothing is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);
/// `"a", "b" or "c"`.
std::string quoted_list(const std::vector<std::string>& words, std::string_view last_separator = " or ");

}  // namespace tpc

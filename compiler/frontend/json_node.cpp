#include "compiler/frontend/json_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tpc {

std::string escape_pointer_token(std::string_view token) {
  std::string out;
  for (char c : token) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  // Any one-letter word is near any other.
  std::string nearest = word.size() < 2 ? "" : nearest_word(word, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

std::string quoted_list(const std::vector<std::string>& words, std::string_view last_separator) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? last_separator : ", ";
    out += fmt::format("\"{}\"", words[i]);
  }
  return out;
}

SourceLoc JsonNode::key_loc(std::string_view key) const {
  return {*file_, pointer_ + "/" + escape_pointer_token(key), /*at_key=*/true};
}

JsonNode JsonNode::child(const nlohmann::json& json, std::string_view token, std::string label) const {
  JsonNode node(json, *file_, std::move(label));
  node.pointer_ = pointer_ + "/" + escape_pointer_token(token);
  return node;
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!json_->is_object()) return std::nullopt;
  auto member = json_->find(key);
  if (member == json_->end()) return std::nullopt;
  return child(*member, key, fmt::format("\"{}\"", key));
}

JsonNode JsonNode::required(std::string_view key, std::string_view owner) const {
  auto member = find(key);
  if (!member) fail(fmt::format("{} needs \"{}\"", owner, key));
  return *member;
}

bool JsonNode::as_bool() const {
  if (!json_->is_boolean()) fail_type("true or false");
  return json_->get<bool>();
}

double JsonNode::as_number() const {
  if (!json_->is_number()) fail_type("a number");
  auto number = json_->get<double>();
  // Models are computed in fp32.
  if (std::abs(number) > std::numeric_limits<float>::max())
    fail("this number is too large for fp32, whose limit is 3.4e38");
  return number;
}

const std::string& JsonNode::as_string() const {
  if (!json_->is_string()) fail_type("a string");
  return json_->get_ref<const std::string&>();
}

int64_t JsonNode::as_int(int64_t smallest, int64_t largest) const {
  if (!json_->is_number_integer()) fail_type("a whole number");
  bool fits = !json_->is_number_unsigned() || json_->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  int64_t value = fits ? json_->get<int64_t>() : 0;
  if (!fits || value < smallest || value > largest) {
    fail_type(fmt::format("a whole number from {} to {}", smallest, largest));
  }
  return value;
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!json_->is_array()) fail_type("a list");
  std::vector<JsonNode> out;
  for (size_t i = 0; i < json_->size(); ++i) {
    out.push_back(child((*json_)[i], std::to_string(i), fmt::format("element {} of {}", i, label_)));
  }
  return out;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  expect_object();
  std::vector<std::pair<std::string, JsonNode>> out;
  for (auto member = json_->begin(); member != json_->end(); ++member) {
    out.emplace_back(member.key(), child(*member, member.key(), fmt::format("\"{}\"", member.key())));
  }
  return out;
}

void JsonNode::expect_object() const {
  if (!json_->is_object()) fail_type("an object");
}

const std::string& JsonNode::as_word(const std::vector<std::string>& allowed) const {
  if (!json_->is_string()) fail_type(quoted_list(allowed));
  const std::string& word = as_string();
  if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return word;
  // Where the choice is small, naming it is suggestion enough.
  std::string way_out = allowed.size() > 2 ? suggestion(word, allowed) : "";
  fail(fmt::format("{}: wanted {}, found {}{}", label_, quoted_list(allowed), found(), way_out));
}

bool JsonNode::bool_or(std::string_view key, bool otherwise) const {
  auto member = find(key);
  return member ? member->as_bool() : otherwise;
}

double JsonNode::number_or(std::string_view key, double otherwise) const {
  auto member = find(key);
  return member ? member->as_number() : otherwise;
}

std::string JsonNode::string_or(std::string_view key, std::string otherwise) const {
  auto member = find(key);
  return member ? member->as_string() : otherwise;
}

bool JsonNode::report_unknown_keys(const std::vector<std::string>& allowed, std::string_view owner,
                                   DiagnosticSink& sink) const {
  bool any = false;
  for (const auto& [key, value] : members()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    any = true;
    std::string way_out = suggestion(key, allowed);
    if (way_out.empty()) way_out = fmt::format("; it has {}", quoted_list(allowed, " and "));
    sink.error(key_loc(key), fmt::format("{} has no key \"{}\"{}", owner, key, way_out));
  }
  return any;
}

std::string JsonNode::found() const {
  constexpr size_t kShown = 40;
  if (json_->is_object()) return json_->empty() ? "an empty object" : "an object";
  if (json_->is_array()) return json_->empty() ? "an empty list" : "a list";
  if (json_->is_string() && as_string().size() > kShown) {
    // Cut between characters: what is left must be UTF-8 too.
    size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(as_string()[end]) & 0xC0U) == 0x80U) --end;
    return fmt::format("\"{}...\"", as_string().substr(0, end));
  }
  return json_->dump();
}

void JsonNode::fail(std::string message, std::vector<Note> notes) const {
  throw UserError(Diagnostic{Severity::kError, loc(), std::move(message), std::move(notes)});
}

void JsonNode::fail_type(std::string_view wanted) const {
  fail(fmt::format("{}: wanted {}, found {}", label_, wanted, found()));
}

}  // namespace tpc

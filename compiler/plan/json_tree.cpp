#include "compiler/plan/json_tree.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxDepth = 100;
/// Of one object; members are compared pairwise to find a name that stands twice.
constexpr int kMaxMembers = 10000;

/// A member name in a JSON pointer (RFC 6901).
std::string escaped(std::string_view key) {
  std::string result;
  for (char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

Json to_json(const JsonTree& tree, int node) {
  switch (tree.kind(node)) {
    case JsonKind::kNull:
      return nullptr;
    case JsonKind::kBool:
      return tree.boolean(node);
    case JsonKind::kInteger:
      return tree.integer(node);
    case JsonKind::kReal:
      return tree.real(node);
    case JsonKind::kString:
      return std::string(tree.text(node));
    case JsonKind::kArray: {
      Json array = Json::array();
      for (int child = tree.first_child(node); child >= 0; child = tree.next(child)) {
        array.push_back(to_json(tree, child));
      }
      return array;
    }
    case JsonKind::kObject: {
      Json object = Json::object();
      for (int child = tree.first_child(node); child >= 0; child = tree.next(child)) {
        object[std::string(tree.key(child))] = to_json(tree, child);
      }
      return object;
    }
  }
  TPC_UNREACHABLE("JSON kind {}", static_cast<int>(tree.kind(node)));
}

}  // namespace

std::string_view to_string(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "a boolean";
    case JsonKind::kInteger:
      return "an integer";
    case JsonKind::kReal:
      return "a number with a fraction";
    case JsonKind::kString:
      return "a text";
    case JsonKind::kArray:
      return "a list";
    case JsonKind::kObject:
      return "an object";
  }
  TPC_UNREACHABLE("JSON kind {}", static_cast<int>(kind));
}

/// Receives nlohmann's parse events.
class JsonTreeBuilder : public nlohmann::json_sax<Json> {
 public:
  JsonTreeBuilder(JsonTree& tree, const std::string& file) : tree_(tree), file_(file) {}

  bool null() override { return add(JsonKind::kNull); }
  bool boolean(bool value) override {
    add(JsonKind::kBool);
    tree_.nodes_.back().integer = value ? 1 : 0;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    add(JsonKind::kInteger);
    tree_.nodes_.back().integer = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    add(JsonKind::kInteger);
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(fmt::format("integer {} does not fit into 64 bits", value));
    }
    tree_.nodes_.back().integer = static_cast<int64_t>(value);
    return true;
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    add(JsonKind::kReal);
    tree_.nodes_.back().real = value;
    return true;
  }
  bool string(string_t& value) override {
    add(JsonKind::kString);
    tree_.nodes_.back().text = store(value);
    return true;
  }
  bool binary(binary_t& /*value*/) override { TPC_UNREACHABLE("JSON text has no binary values"); }

  bool start_object(std::size_t /*elements*/) override { return open(JsonKind::kObject); }
  bool key(string_t& name) override {
    if (tree_.num_children(open_.back()) >= kMaxMembers)
      fail(fmt::format("an object of more than {} members", kMaxMembers));
    for (int child = tree_.first_child(open_.back()); child >= 0; child = tree_.next(child)) {
      if (tree_.key(child) != name) continue;
      throw UserError(Diagnostic{Severity::kError,
                                 {file_, tree_.pointer(child), true},
                                 fmt::format("member \"{}\" stands here twice", name),
                                 {}});
    }
    key_ = store(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*elements*/) override { return open(JsonKind::kArray); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while ...": the place is ours.
    std::string what = error.what();
    size_t colon = what.find(": ");
    if (colon != std::string::npos) what = what.substr(colon + 2);
    if (token.empty()) what = "syntax error: the text ends too early";
    Diagnostic diagnostic{Severity::kError, {file_, ""}, what, {}};
    diagnostic.byte = static_cast<long long>(position > 0 ? position - 1 : 0);
    throw UserError(std::move(diagnostic));
  }

 private:
  JsonTree::Slice store(const std::string& text) {
    JsonTree::Slice slice{static_cast<uint32_t>(tree_.characters_.size()), static_cast<uint32_t>(text.size())};
    tree_.characters_ += text;
    return slice;
  }

  bool add(JsonKind kind) {
    JsonTree::Node node;
    node.kind = kind;
    node.key = std::exchange(key_, {});
    int index = static_cast<int>(tree_.nodes_.size());
    node.end = index + 1;
    if (!open_.empty()) {
      node.parent = open_.back();
      ++tree_.nodes_[JsonTree::position(node.parent)].count;
    }
    tree_.nodes_.push_back(node);
    return true;
  }

  bool open(JsonKind kind) {
    add(kind);
    int index = static_cast<int>(tree_.nodes_.size()) - 1;
    open_.push_back(index);
    // While it is open it reaches as far as its children do, so that siblings can be walked (see JsonTree::next).
    tree_.nodes_.back().end = std::numeric_limits<int>::max();
    if (open_.size() > kMaxDepth) fail(fmt::format("nested deeper than {} levels", kMaxDepth));
    return true;
  }

  bool close() {
    tree_.nodes_[JsonTree::position(open_.back())].end = static_cast<int>(tree_.nodes_.size());
    open_.pop_back();
    return true;
  }

  [[noreturn]] void fail(std::string message) const {
    throw UserError(SourceLoc{file_, tree_.pointer(static_cast<int>(tree_.nodes_.size()) - 1)}, std::move(message));
  }

  JsonTree& tree_;
  const std::string& file_;
  std::vector<int> open_;
  JsonTree::Slice key_;
};

JsonTree::JsonTree(const std::string& text, const std::string& file) {
  if (text.size() > std::numeric_limits<uint32_t>::max() / 2) {
    throw UserError(SourceLoc{file, ""},
                    fmt::format("a plan of {} bytes is beyond what tpc reads (2 GB)", text.size()));
  }
  nodes_.reserve(text.size() / 16);
  characters_.reserve(text.size() / 2);
  JsonTreeBuilder builder(*this, file);
  Json::sax_parse(text, &builder);
}

int JsonTree::first_child(int node) const {
  bool is_empty = nodes_[position(node)].count == 0;
  return is_empty ? -1 : node + 1;
}

int JsonTree::next(int node) const {
  int after = nodes_[position(node)].end;
  int parent = nodes_[position(node)].parent;
  if (parent < 0 || after >= static_cast<int>(nodes_.size()) || after >= nodes_[position(parent)].end) return -1;
  return after;
}

int JsonTree::find(int object, std::string_view wanted) const {
  for (int child = first_child(object); child >= 0; child = next(child)) {
    if (key(child) == wanted) return child;
  }
  return -1;
}

std::string JsonTree::pointer(int node) const {
  std::string result;
  while (nodes_[position(node)].parent >= 0) {
    int parent = nodes_[position(node)].parent;
    std::string part;
    if (kind(parent) == JsonKind::kObject) {
      part = escaped(key(node));
    } else {
      int64_t index = 0;
      for (int child = first_child(parent); child != node; child = next(child)) ++index;
      part = fmt::format("{}", index);
    }
    result = "/" + part + result;
    node = parent;
  }
  return result;
}

std::string JsonTree::dump(int node) const { return to_json(*this, node).dump(); }

}  // namespace tpc

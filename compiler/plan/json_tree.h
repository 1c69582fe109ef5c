/// A JSON text as one flat array of nodes in document order: a plan of ten megabytes is read without a heap object a
/// value. nlohmann/json does the lexing and judges the syntax.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/core/diagnostic.h"

namespace tpc {

enum class JsonKind : uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

/// "null", "a boolean", "an integer", ..., for messages.
std::string_view to_string(JsonKind kind);

class JsonTree {
 public:
  /// Throws UserError for a syntax error, a member named twice, an integer beyond 64 bits or nesting beyond 100 levels.
  JsonTree(const std::string& text, const std::string& file);

  static constexpr int kRoot = 0;

  JsonKind kind(int node) const { return nodes_[position(node)].kind; }
  /// Of arrays and objects: the first child, -1 when empty. Children are walked with next().
  int first_child(int node) const;
  /// The following sibling, -1 after the last.
  int next(int node) const;
  int64_t num_children(int node) const { return nodes_[position(node)].count; }
  /// The member's name; "" in arrays.
  std::string_view key(int node) const { return slice(nodes_[position(node)].key); }
  /// The member of an object; -1 when absent.
  int find(int object, std::string_view key) const;

  bool boolean(int node) const { return nodes_[position(node)].integer != 0; }
  int64_t integer(int node) const { return nodes_[position(node)].integer; }
  double real(int node) const { return nodes_[position(node)].real; }
  std::string_view text(int node) const { return slice(nodes_[position(node)].text); }

  /// "/steps/3/operands/0".
  std::string pointer(int node) const;
  /// The value as compact JSON text, members in the order of the file.
  std::string dump(int node) const;

 private:
  friend class JsonTreeBuilder;

  struct Slice {
    uint32_t begin = 0;
    uint32_t size = 0;
  };
  struct Node {
    JsonKind kind = JsonKind::kNull;
    int parent = -1;
    /// One past the last node of the subtree.
    int end = 0;
    int count = 0;
    Slice key;
    Slice text;
    union {
      int64_t integer = 0;
      double real;
    };
  };

  static size_t position(int node) { return static_cast<size_t>(node); }
  std::string_view slice(Slice s) const { return std::string_view(characters_).substr(s.begin, s.size); }

  std::vector<Node> nodes_;
  /// Names and texts, one after the other.
  std::string characters_;
};

}  // namespace tpc

/// The sizes of a model: "dims" of the model file with the overrides of the command line, and their uses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/core/shape.h"
#include "compiler/frontend/json_node.h"

namespace tpc {

/// One size; and all sizes of one tensor together. Products of what passes stay far inside 64 bits.
constexpr int64_t kLargestSize = (int64_t{1} << 31) - 1;
constexpr int64_t kLargestTensor = int64_t{1} << 44;
constexpr size_t kMostDimensions = 8;

/// A dimension of a tensor: how long, and the name it was written with ("" for a plain number).
struct Dim {
  int64_t size = 0;
  std::string name;
  bool operator==(const Dim&) const = default;
};
using Dims = std::vector<Dim>;

Shape shape_of(const Dims& dims);
/// "[batch=4, seq=32, 3]".
std::string to_string(const Dims& dims);

/// Thrown when something that was already reported stands behind this; never seen outside the frontend.
struct DependsOnMistake {};

class NamedSizes {
 public:
  /// Reads "dims" (an object of names and sizes) and puts the overrides in their place. Mistakes go to `sink`; a name
  /// with a mistake stays known, and uses of it throw DependsOnMistake.
  void read(const JsonNode& dims, const std::map<std::string, int64_t>& overrides, DiagnosticSink& sink);

  /// Makes every use of a name throw DependsOnMistake: "dims" itself could not be read.
  void mark_broken() { is_broken_ = true; }

  /// A name of "dims" or a positive whole number.
  Dim resolve(const JsonNode& node);
  /// A list of them, or a single one. At least one, at most kMostDimensions, and not too many elements in all.
  Dims resolve_list(const JsonNode& node);
  /// A number, or "1/sqrt(NAME)" of a size.
  double resolve_number(const JsonNode& node);

  /// One warning for each name that nothing used.
  void warn_unused(const JsonNode& dims, DiagnosticSink& sink) const;

 private:
  struct Entry {
    int64_t size = 0;
    bool is_broken = false;
    bool is_used = false;
  };
  Dim resolve_name(const JsonNode& node, const std::string& name);

  std::map<std::string, Entry> entries_;
  bool is_broken_ = false;
};

/// Letters, digits, "_" and "-", not beginning with a digit or "-".
bool is_name(const std::string& text);
/// Throws, at `node`, when `dims` have more elements than kLargestTensor; `what` begins the message.
void check_element_count(const JsonNode& node, const Shape& shape, const std::string& what);

}  // namespace tpc

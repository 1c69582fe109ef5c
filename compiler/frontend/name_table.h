/// What the names of a model file mean: layers, inputs and weights, in the scopes that repeated blocks make.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/core/ids.h"
#include "compiler/frontend/named_sizes.h"

namespace tpc {

/// A value of the graph as layers see it.
struct Tensor {
  ValueId id;
  DType dtype = DType::kF32;
  Dims dims;
};

struct NameEntry {
  /// kCarry: what a block's carried name holds until the layer of that name is read. kBroken: its layer has a mistake.
  enum class Kind { kInput, kLayer, kWeight, kCarry, kBroken };
  Kind kind = Kind::kLayer;
  Tensor tensor;
  /// JSON pointer of the object that declares it.
  std::string pointer;
};

/// Names are full: "block0.fc1", "block0.fc1.weight". A scope is a prefix with its dot, "block0.", or "" outside.
class NameTable {
 public:
  /// Nothing, or the entry that already has this name; a carry gives way to the layer of its name.
  const NameEntry* declare(const std::string& full_name, NameEntry entry);
  /// The entry that `name` means in `scope`: the innermost scope that has it.
  const NameEntry* find(std::string_view scope, const std::string& name) const;

  /// Whatever has this name, or will want it, has a mistake.
  void set_broken(const std::string& full_name, const std::string& pointer);
  /// Names that begin with this full prefix and are not known hide a mistake that was reported.
  void mark_broken(std::string prefix) { broken_prefixes_.push_back(std::move(prefix)); }
  bool is_broken(std::string_view scope, const std::string& name) const;

  /// Gives every name below `from` ("block3.") a second one below `to` ("block{last}.").
  void alias(const std::string& from, const std::string& to);

  /// Every name that may be written in `scope` for an entry of these kinds, shortest form.
  std::vector<std::string> visible(std::string_view scope, const std::vector<NameEntry::Kind>& kinds) const;

 private:
  std::map<std::string, NameEntry, std::less<>> entries_;
  std::vector<std::string> broken_prefixes_;
};

/// "a.b." -> "a.", "a." -> "".
std::string_view parent_scope(std::string_view scope);

}  // namespace tpc

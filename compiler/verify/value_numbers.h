/// Values of the model by number: two tensors have the same number when they are the same formula of the same values.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"

namespace tpc::verify {

/// What the one-rank step of a model computes: a graph at Stage::kDifferentiated, which must outlive this.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Graph& model);

  static constexpr int kUnknown = -1;

  /// Of an input, parameter or state of the model.
  int leaf(const std::string& name) const;
  /// The node of an input, parameter or state: its attributes are the type, and how a parameter starts.
  const Node& leaf_node(int number) const { return *leaf_nodes_.at(number); }
  /// Of the first result of an op on values; the other results have the numbers after it. kUnknown when the model
  /// computes no such value. The order of the operands of an add or multiply does not matter.
  int result(OpKind op, const Attributes& attributes, std::vector<int> operands) const;

  /// Of the value that the model calls so; kUnknown when none is.
  int named(const std::string& name) const;
  const std::string& name(int number) const { return names_[static_cast<size_t>(number)]; }
  const TensorType& type(int number) const { return types_[static_cast<size_t>(number)]; }
  /// Number of the value that a parameter or state has from the next step on, by the number of the leaf.
  const std::map<int, int>& updates() const { return updates_; }
  /// By the name of the output.
  const std::map<std::string, int>& outputs() const { return outputs_; }
  const Precision& precision() const { return model_.precision; }
  /// The model's nodes of a layer with an op: for messages.
  std::vector<const Node*> nodes_like(const std::string& layer, OpKind op) const;
  /// Number of a value of the model.
  int of(ValueId value) const { return numbers_[value.position()]; }

 private:
  std::vector<int> key(OpKind op, int attributes, std::vector<int> operands) const;

  const Graph& model_;
  std::unordered_map<std::string, int> attribute_texts_;
  std::map<std::vector<int>, int> results_;
  std::unordered_map<std::string, int> leaves_;
  std::map<int, const Node*> leaf_nodes_;
  std::unordered_map<std::string, int> by_name_;
  std::vector<std::string> names_;
  std::vector<TensorType> types_;
  std::vector<int> numbers_;  ///< per value of the model
  std::map<int, int> updates_;
  std::map<std::string, int> outputs_;
};

}  // namespace tpc::verify

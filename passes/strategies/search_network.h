/// The whole training step as a cost network: which variables there are, and what their labels cost together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/sharding/conversion_graph.h"
#include "passes/solver/cost_network.h"
#include "passes/strategies/search_space.h"
#include "passes/strategies/strategy.h"

namespace tpc {

/// What a choice costs. Added up over the step these are the plan's.
struct Charge {
  int64_t price = 0;   ///< see MovePrice
  int64_t memory = 0;  ///< bytes on the fullest rank: leaves at rest, gradients, what is kept for backward
  int64_t collectives = 0;

  Charge& operator+=(const Charge& other) {
    price += other.price;
    memory += other.memory;
    collectives += other.collectives;
    return *this;
  }
  auto operator<=>(const Charge&) const = default;
};

/// How charges are ordered: price_weight * price + memory_weight * memory first, then memory (price, when only memory
/// counts), then collectives.
struct ChargeOrder {
  int64_t price_weight = 1;
  int64_t memory_weight = 0;
};
inline constexpr ChargeOrder kCheapest{1, 0};
inline constexpr ChargeOrder kSmallest{0, 1};

/// Per variable of a SearchNetwork the label that it must have; -1: any.
using FixedLabels = std::vector<int>;
/// The assignment of variables to all their labels that an assignment of network(order, fixed) stands for.
std::vector<int> with_fixed(std::vector<int> assignment, const FixedLabels& fixed);

/// Variables, one for
///   a node     its ways (NodeChoices)
///   a leaf     how it lies at rest
///   a value wanted by several uses together: the set of forms made of it, so that a conversion is paid once however
///              many uses share it (a cheapest tree, ConversionGraph::provide_cost)
///   a value that backward uses: the forms that are kept (of a leaf: none beside itself, or gathered copies)
/// Factors: conversions between what is made and what is wanted; that a wanted form is among those made; memory.
///
/// Sets of forms are antichains (no form that another gives for free): of any number on a mesh of one axis, of two on
/// one of two, of one on more (sub-axes count); further concurrent forms are covered by one that gives them.
class SearchNetwork {
 public:
  SearchNetwork(const Graph& graph, const SearchSpace& space, const MovePrice& price);

  /// Ways of the gradient norm's sums; 1 when there are none.
  int num_norm_ways() const;
  /// Those sums go way `norm_way`, or as in `assignment`; all else is free.
  FixedLabels norm_way(int norm_way) const;
  FixedLabels norm_way_of(std::span<const int> assignment) const;
  /// The network for an order of charges, in which variables that are fixed have one label.
  CostNetwork network(ChargeOrder order, const FixedLabels& fixed) const;
  Charge charge(std::span<const int> assignment) const;
  /// The charge that a cost of network(kCheapest) stands for; of memory, whole units of its digit.
  Charge cheapest_charge(Cost cost) const;
  /// price_weight * price + memory_weight * memory of a cost of network(order), rounded down.
  Cost primary_charge(Cost cost, ChargeOrder order) const;
  ChosenShardings decode(std::span<const int> assignment) const;

  int64_t num_decisions() const { return static_cast<int64_t>(num_labels_.size()); }
  /// Labels of all variables.
  int64_t num_choices() const;
  /// The variable's layer, counted from 0 in the order of the model: that of its node, or of its value's.
  int layer(int variable) const { return layer_of_variable_[static_cast<size_t>(variable)]; }
  /// -1 when the node has no variable.
  int variable_of_node(size_t node) const { return variable_of_node_[node]; }
  /// -1 when the value is no leaf, or a leaf without a choice.
  int variable_of_leaf(ValueId value) const { return variable_of_leaf_[value.position()]; }

 private:
  using State = ConversionGraph::State;

  /// What the labels of a variable mean for one value; lists of equal content are kept once.
  struct LabelMeaning {
    /// Per label the forms: exactly one where a node or leaf makes or wants it, several where uses share them.
    std::vector<std::vector<State>> forms;
    /// Label 0 of a kept leaf: nothing beside the leaf itself; its forms are empty.
    auto operator<=>(const LabelMeaning&) const = default;
  };
  /// A variable as one value sees it; variable -1: a fixed form.
  struct Side {
    int variable = -1;
    int meaning = -1;
    bool operator==(const Side&) const = default;
  };
  struct Table {
    std::vector<int> sizes;
    std::vector<Charge> entries;
    std::vector<bool> is_legal;
  };
  struct Factor {
    std::vector<int> scope;
    int table = 0;
  };
  /// Values of one type share their conversions.
  struct Tensor {
    ConversionGraph conversions;
    TensorType type;
  };
  /// The uses of a value, by what they are converted from.
  struct UseSides {
    std::vector<Side> early;  ///< of the value as it is made
    std::vector<Side> late;   ///< by backward, of what was kept
    std::vector<Side> rest;   ///< by the optimizer, of a leaf at rest
  };
  /// A variable that holds the forms of a value that are kept, or made for uses of a phase.
  struct Forms {
    ValueId value;
    Side side;
    std::optional<Phase> made_for;  ///< absent: kept
  };
  enum class TableKind : int { kProvide, kServe, kKeep, kLate, kSize };

  void add_node_and_leaf_variables();
  void add_value(ValueId value, const Side& made, const UseSides& sides);
  void add_update_memory(const Node& node);
  UseSides sides_of(ValueId value, const Side& made, const std::vector<Use>& uses);
  Side side_of_operand(size_t node, size_t operand);
  Side side_of_made(ValueId value);
  Side node_side(size_t node, ValueId value, bool is_result, size_t index);
  Side fixed_side(ValueId value, const TensorSharding& sharding);
  /// One side that stands for all: the use itself when there is one, else a variable for the set of forms.
  std::vector<Side> gathered(int tensor, const std::vector<Side>& uses, const std::vector<std::vector<State>>& from,
                             const std::vector<std::vector<State>>& along);
  void drop_dominated(int tensor, const std::vector<State>& wanted, const std::vector<std::vector<State>>& from,
                      const std::vector<std::vector<State>>& along, std::vector<std::vector<State>>& sets);
  bool pays_to_keep(int tensor, State a, State b, const std::vector<State>& made, const std::vector<State>& early);
  Charge provide_charge(int tensor, const std::vector<State>& from, const std::vector<State>& targets);
  std::vector<State> all_forms(const Side& side) const;
  Side kept_side(int tensor, const Side& made, const UseSides& uses, bool is_leaf);

  int add_variable(size_t num_labels, bool is_norm_sum = false);
  int intern(LabelMeaning meaning);
  const LabelMeaning& meaning(const Side& side) const { return meanings_[static_cast<size_t>(side.meaning)]; }
  int tensor_index(ValueId value);
  Charge find_largest_charge() const;
  Tensor& tensor(int index) { return *tensors_[static_cast<size_t>(index)]; }
  /// Bytes of a form on the fullest rank.
  int64_t local_bytes(int tensor, State form);
  bool gives_free(int tensor, State from, State to);

  /// charge(labels) of the sides' labels; no value: they exclude each other. Tables of one kind, tensor and meanings
  /// are worked out once.
  using ChargeOf = std::function<std::optional<Charge>(const std::vector<size_t>& labels)>;
  void add_factor(TableKind kind, int tensor, const std::vector<Side>& sides, const ChargeOf& charge);
  size_t offset(const Factor& factor, std::span<const int> assignment) const;

  const Graph& graph_;
  const SearchSpace& space_;
  const MovePrice& price_;
  std::vector<int> producer_;
  std::vector<int> num_labels_;
  std::vector<int> variable_of_node_;
  std::vector<int> variable_of_leaf_;
  std::vector<bool> is_norm_sum_;  ///< per variable
  std::vector<int> layer_of_node_;
  std::vector<int> layer_of_variable_;
  int layer_now_ = 0;  ///< of the variables that are added
  std::vector<Forms> forms_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::map<std::pair<Shape, DType>, int> tensor_index_;
  std::vector<LabelMeaning> meanings_;
  std::map<LabelMeaning, int> meaning_index_;
  std::map<std::vector<int>, int> node_meanings_;    ///< (kind, is result, index, tensor) -> meaning
  std::map<std::vector<int>, int> shared_meanings_;  ///< (tensor, meanings of the uses) -> meaning of their form sets
  std::vector<Table> tables_;
  std::map<std::vector<int>, int> table_index_;
  std::vector<Factor> factors_;
  Charge largest_;  ///< that an assignment can have at most, each by itself
};

}  // namespace tpc

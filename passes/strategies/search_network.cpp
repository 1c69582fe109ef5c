#include "passes/strategies/search_network.h"

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

/// Of one table; beyond, no solver would come to an end.
constexpr size_t kMostEntries = size_t{1} << 23;

/// Digits of a cost: primary charge, secondary charge (46 bits), collectives (14 bits). A carry from the collectives
/// could only decide between plans that differ by less than a byte in 16,384 of them.
constexpr int kSecondaryShift = 14;
constexpr int kPrimaryShift = 60;
constexpr int64_t kMostCharge = int64_t{1} << 61;
/// Larger weights leave no room for the secondary charge.
constexpr int64_t kMostWeightWithSecondary = int64_t{1} << 14;

/// What the secondary digit counts in, so that it holds the largest charge.
int64_t secondary_unit(int64_t largest) {
  int64_t unit = 1;
  while (largest / unit >= (int64_t{1} << (kPrimaryShift - kSecondaryShift))) unit *= 2;
  return unit;
}

bool has_secondary(ChargeOrder order) {
  return std::max(order.price_weight, order.memory_weight) < kMostWeightWithSecondary;
}

}  // namespace

SearchNetwork::SearchNetwork(const Graph& graph, const SearchSpace& space, const MovePrice& price)
    : graph_(graph), space_(space), price_(price), producer_(producers(graph)) {
  std::map<std::string, int> layers;
  for (const Node& node : graph.nodes) {
    layer_of_node_.push_back(layers.try_emplace(node.layer, static_cast<int>(layers.size())).first->second);
  }
  add_node_and_leaf_variables();
  std::vector<std::vector<Use>> all_uses = uses(graph);
  // First all forms that any value may have, then what they cost.
  std::vector<std::pair<Side, UseSides>> sides;
  sides.reserve(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    ValueId value{static_cast<int32_t>(v)};
    Side made = side_of_made(value);
    sides.emplace_back(made, made.meaning < 0 ? UseSides{} : sides_of(value, made, all_uses[v]));
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    layer_now_ = layer_of_node_[static_cast<size_t>(producer_[v])];
    if (sides[v].first.meaning >= 0) add_value(ValueId{static_cast<int32_t>(v)}, sides[v].first, sides[v].second);
  }
  for (const Node& node : graph.nodes) add_update_memory(node);
  largest_ = find_largest_charge();
}

int SearchNetwork::add_variable(size_t num_labels, bool is_norm_sum) {
  num_labels_.push_back(static_cast<int>(num_labels));
  is_norm_sum_.push_back(is_norm_sum);
  layer_of_variable_.push_back(layer_now_);
  return static_cast<int>(num_labels_.size()) - 1;
}

int SearchNetwork::intern(LabelMeaning meaning) {
  auto [entry, is_new] = meaning_index_.try_emplace(std::move(meaning), static_cast<int>(meanings_.size()));
  if (is_new) meanings_.push_back(entry->first);
  return entry->second;
}

int SearchNetwork::tensor_index(ValueId value) {
  const TensorType& type = graph_.value(value).type;
  auto [entry, is_new] = tensor_index_.try_emplace({type.shape, type.dtype}, static_cast<int>(tensors_.size()));
  if (is_new) tensors_.push_back(std::make_unique<Tensor>(Tensor{ConversionGraph(type, graph_.mesh, price_), type}));
  return entry->second;
}

int64_t SearchNetwork::local_bytes(int index, State form) {
  Tensor& of = tensor(index);
  return fullest_bytes(of.type, of.conversions.sharding(form), graph_.mesh);
}

bool SearchNetwork::gives_free(int index, State from, State to) {
  if (from == to) return true;
  ConversionGraph& conversions = tensor(index).conversions;
  return !conversions.sharding(to).has_maximum() && conversions.cost(from, to).collectives == 0;
}

void SearchNetwork::add_node_and_leaf_variables() {
  variable_of_node_.assign(graph_.nodes.size(), -1);
  variable_of_leaf_.assign(graph_.values.size(), -1);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    layer_now_ = layer_of_node_[n];
    if (space_.kind(n) >= 0) {
      variable_of_node_[n] = add_variable(space_.choices(space_.kind(n)).strategies.size(), space_.is_norm_sum(n));
      continue;
    }
    for (ValueId result : graph_.nodes[n].results) {
      int kind = space_.leaf_kind(result);
      if (kind >= 0) variable_of_leaf_[result.position()] = add_variable(space_.at_rest(kind).size());
    }
  }
}

SearchNetwork::Side SearchNetwork::node_side(size_t n, ValueId value, bool is_result, size_t index) {
  int of_tensor = tensor_index(value);
  auto [entry, is_new] =
      node_meanings_.try_emplace({space_.kind(n), is_result ? 1 : 0, static_cast<int>(index), of_tensor}, -1);
  if (is_new) {
    LabelMeaning meaning;
    for (const NodeSharding& sharding : space_.choices(space_.kind(n)).shardings) {
      const TensorSharding& form = is_result ? sharding.results[index] : sharding.operands[index];
      meaning.forms.push_back({tensor(of_tensor).conversions.add(form)});
    }
    entry->second = intern(std::move(meaning));
  }
  return {variable_of_node_[n], entry->second};
}

SearchNetwork::Side SearchNetwork::fixed_side(ValueId value, const TensorSharding& sharding) {
  int of_tensor = tensor_index(value);
  return {-1, intern({{{tensor(of_tensor).conversions.add(sharding)}}})};
}

/// How the value is made, or lies at rest; meaning -1: no conversion of it costs anything.
SearchNetwork::Side SearchNetwork::side_of_made(ValueId value) {
  auto made_by = static_cast<size_t>(producer_[value.position()]);
  const Node& node = graph_.nodes[made_by];
  if (variable_of_leaf_[value.position()] >= 0) {
    LabelMeaning meaning;
    ConversionGraph& conversions = tensor(tensor_index(value)).conversions;
    for (const TensorSharding& form : space_.at_rest(space_.leaf_kind(value)))
      meaning.forms.push_back({conversions.add(form)});
    return {variable_of_leaf_[value.position()], intern(std::move(meaning))};
  }
  if (variable_of_node_[made_by] < 0) return {};
  auto result = std::find(node.results.begin(), node.results.end(), value) - node.results.begin();
  return node_side(made_by, value, /*is_result=*/true, static_cast<size_t>(result));
}

SearchNetwork::Side SearchNetwork::side_of_operand(size_t n, size_t operand) {
  const Node& node = graph_.nodes[n];
  ValueId value = node.operands[operand];
  if (node.op == OpKind::kOutput) return fixed_side(value, TensorSharding::replicated(graph_.mesh));
  // What updates a leaf is wanted as the leaf lies; state lies as its update makes it.
  if (node.op == OpKind::kUpdate) return operand == 1 ? side_of_made(node.operands[0]) : Side{};
  return node_side(n, value, /*is_result=*/false, operand);
}

SearchNetwork::UseSides SearchNetwork::sides_of(ValueId value, const Side& made, const std::vector<Use>& uses) {
  const Node& producer = graph_.nodes[static_cast<size_t>(producer_[value.position()])];
  bool is_split = producer.phase == Phase::kForward && std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
                    return graph_.nodes[static_cast<size_t>(use.node)].phase == Phase::kBackward;
                  });
  UseSides sides;
  for (const Use& use : uses) {
    Side side = side_of_operand(static_cast<size_t>(use.node), static_cast<size_t>(use.operand));
    if (side.meaning < 0 || side.variable == made.variable) continue;
    Phase phase = graph_.nodes[static_cast<size_t>(use.node)].phase;
    std::vector<Side>* group = &sides.early;
    if (is_split && phase == Phase::kBackward) group = &sides.late;
    if (is_split && phase == Phase::kOptimizer) group = &sides.rest;
    if (std::find(group->begin(), group->end(), side) == group->end()) group->push_back(side);
  }
  return sides;
}

void SearchNetwork::add_factor(TableKind kind, int of_tensor, const std::vector<Side>& sides, const ChargeOf& charge) {
  Factor factor;
  std::vector<int> key{static_cast<int>(kind), of_tensor};
  for (const Side& side : sides) {
    if (side.variable >= 0) factor.scope.push_back(side.variable);
    key.push_back(side.meaning);
    key.push_back(side.variable >= 0 ? 1 : 0);
  }
  auto [entry, is_new] = table_index_.try_emplace(std::move(key), static_cast<int>(tables_.size()));
  factor.table = entry->second;
  if (is_new) {
    Table& table = tables_.emplace_back();
    size_t size = 1;
    for (const Side& side : sides) {
      size_t labels = meaning(side).forms.size();
      if (side.variable >= 0) table.sizes.push_back(static_cast<int>(labels));
      size *= labels;
      if (size > kMostEntries) refuse_too_many_choices();
    }
    std::vector<size_t> labels(sides.size(), 0);
    for (size_t i = 0; i < size; ++i) {
      std::optional<Charge> entry_charge = charge(labels);
      table.entries.push_back(entry_charge.value_or(Charge{}));
      table.is_legal.push_back(entry_charge.has_value());
      for (size_t s = sides.size(); s > 0; --s) {
        if (++labels[s - 1] < meaning(sides[s - 1]).forms.size()) break;
        labels[s - 1] = 0;
      }
    }
  }
  const Table& table = tables_[static_cast<size_t>(factor.table)];
  bool says_something = std::any_of(table.entries.begin(), table.entries.end(),
                                    [](const Charge& entry_charge) { return entry_charge != Charge{}; }) ||
                        std::any_of(table.is_legal.begin(), table.is_legal.end(), [](bool legal) { return !legal; });
  if (says_something) factors_.push_back(std::move(factor));
}

Charge SearchNetwork::provide_charge(int of_tensor, const std::vector<State>& from, const std::vector<State>& targets) {
  ConversionCost cost = tensor(of_tensor).conversions.provide_cost(from, targets);
  return {cost.price, 0, cost.collectives};
}

std::vector<SearchNetwork::State> SearchNetwork::all_forms(const Side& side) const {
  std::vector<State> forms;
  for (const std::vector<State>& of_label : meaning(side).forms)
    forms.insert(forms.end(), of_label.begin(), of_label.end());
  std::sort(forms.begin(), forms.end());
  forms.erase(std::unique(forms.begin(), forms.end()), forms.end());
  return forms;
}

void SearchNetwork::add_value(ValueId value, const Side& made, const UseSides& sides) {
  int of_tensor = tensor_index(value);
  bool is_leaf = variable_of_leaf_[value.position()] >= 0;
  auto forms_of = [&](const Side& side, size_t label) -> const std::vector<State>& {
    return meaning(side).forms[label];
  };
  auto size_factor = [&](const Side& side) {
    add_factor(TableKind::kSize, of_tensor, {side}, [&](const std::vector<size_t>& labels) {
      Charge charge;
      for (State form : forms_of(side, labels[0])) charge.memory += local_bytes(of_tensor, form);
      return std::optional(charge);
    });
  };
  if (is_leaf) size_factor(made);
  std::vector<std::vector<State>> made_forms = meaning(made).forms;
  Phase making_phase = graph_.nodes[static_cast<size_t>(producer_[value.position()])].phase;
  for (const std::vector<Side>* group : {&sides.early, &sides.rest}) {
    if (group == &sides.early && !sides.late.empty()) continue;
    std::vector<Side> wanted = gathered(of_tensor, *group, made_forms, {});
    if (wanted.empty()) continue;
    bool is_rest = group == &sides.rest;
    if (group->size() > 1) forms_.push_back({value, wanted[0], is_rest ? Phase::kOptimizer : making_phase});
    add_factor(TableKind::kProvide, of_tensor, {made, wanted[0]}, [&](const std::vector<size_t>& labels) {
      return std::optional(provide_charge(of_tensor, forms_of(made, labels[0]), forms_of(wanted[0], labels[1])));
    });
  }
  if (sides.late.empty()) return;

  Side kept = kept_side(of_tensor, made, sides, is_leaf);
  forms_.push_back({value, kept, std::nullopt});
  size_factor(kept);
  std::vector<std::vector<State>> kept_forms = meaning(kept).forms;
  std::vector<Side> early{made, kept};
  for (const Side& side : gathered(of_tensor, sides.early, made_forms, kept_forms)) early.push_back(side);
  if (sides.early.size() > 1) forms_.push_back({value, early[2], making_phase});
  add_factor(TableKind::kKeep, of_tensor, early, [&](const std::vector<size_t>& labels) {
    std::vector<State> targets = forms_of(kept, labels[1]);
    if (early.size() > 2) {
      const std::vector<State>& used = forms_of(early[2], labels[2]);
      targets.insert(targets.end(), used.begin(), used.end());
    }
    return std::optional(provide_charge(of_tensor, forms_of(made, labels[0]), targets));
  });
  // A leaf is still there in backward.
  std::vector<std::vector<State>> sources = kept_forms;
  if (is_leaf) {
    sources.clear();
    for (const std::vector<State>& at_rest : made_forms) {
      for (std::vector<State> forms : kept_forms) {
        forms.push_back(at_rest[0]);
        sources.push_back(std::move(forms));
      }
    }
  }
  std::vector<Side> late{kept, gathered(of_tensor, sides.late, sources, {})[0]};
  if (is_leaf) late.push_back(made);
  if (sides.late.size() > 1) forms_.push_back({value, late[1], Phase::kBackward});
  add_factor(TableKind::kLate, of_tensor, late, [&](const std::vector<size_t>& labels) {
    std::vector<State> from = forms_of(kept, labels[0]);
    if (is_leaf) from.push_back(forms_of(made, labels[2])[0]);
    return std::optional(provide_charge(of_tensor, from, forms_of(late[1], labels[1])));
  });
}

/// Gradients and states lie as their update wants them.
void SearchNetwork::add_update_memory(const Node& node) {
  if (node.op != OpKind::kUpdate) return;
  // Each update node is charged for one of the update's operands: the state, or of a parameter the gradient.
  auto maker = static_cast<size_t>(producer_[node.operands[1].position()]);
  const Node& update = graph_.nodes[maker];
  bool is_parameter = variable_of_leaf_[node.operands[0].position()] >= 0;
  for (size_t i = 0; i < update.operands.size(); ++i) {
    ValueId operand = update.operands[i];
    const Node& source = graph_.nodes[static_cast<size_t>(producer_[operand.position()])];
    bool counts = is_parameter ? source.phase == Phase::kBackward : operand == node.operands[0];
    if (!counts) continue;
    int of_tensor = tensor_index(operand);
    Side side = node_side(maker, operand, /*is_result=*/false, i);
    add_factor(TableKind::kSize, of_tensor, {side}, [&](const std::vector<size_t>& labels) {
      return std::optional(Charge{0, local_bytes(of_tensor, meaning(side).forms[labels[0]][0]), 0});
    });
  }
}

int SearchNetwork::num_norm_ways() const {
  int ways = 1;
  for (size_t v = 0; v < num_labels_.size(); ++v) {
    if (is_norm_sum_[v]) ways = std::max(ways, num_labels_[v]);
  }
  return ways;
}

FixedLabels SearchNetwork::norm_way(int norm_way) const {
  FixedLabels fixed(num_labels_.size(), -1);
  for (size_t v = 0; v < fixed.size(); ++v) {
    if (is_norm_sum_[v]) fixed[v] = std::min(norm_way, num_labels_[v] - 1);
  }
  return fixed;
}

FixedLabels SearchNetwork::norm_way_of(std::span<const int> assignment) const {
  FixedLabels fixed(num_labels_.size(), -1);
  for (size_t v = 0; v < fixed.size(); ++v) {
    if (is_norm_sum_[v]) fixed[v] = assignment[v];
  }
  return fixed;
}

std::vector<int> with_fixed(std::vector<int> assignment, const FixedLabels& fixed) {
  for (size_t v = 0; v < assignment.size(); ++v) {
    if (fixed[v] >= 0) assignment[v] = fixed[v];
  }
  return assignment;
}

Cost SearchNetwork::primary_charge(Cost cost, ChargeOrder order) const {
  if (has_secondary(order)) return cost >> kPrimaryShift;
  // What very many collectives carry is none of the charge.
  bool carries = largest_.collectives >= (int64_t{1} << kSecondaryShift);
  return (carries ? cost - largest_.collectives : cost) >> kSecondaryShift;
}

Charge SearchNetwork::find_largest_charge() const {
  std::vector<Charge> largest(tables_.size());
  for (size_t t = 0; t < tables_.size(); ++t) {
    for (const Charge& entry : tables_[t].entries) {
      largest[t].price = std::max(largest[t].price, entry.price);
      largest[t].memory = std::max(largest[t].memory, entry.memory);
      largest[t].collectives = std::max(largest[t].collectives, entry.collectives);
    }
  }
  Charge sum;
  for (const Factor& factor : factors_) {
    const Charge& entry = largest[static_cast<size_t>(factor.table)];
    // Sums that pass 62 bits are told apart no more.
    sum.price = std::min(sum.price + std::min(entry.price, kMostCharge), kMostCharge);
    sum.memory = std::min(sum.memory + std::min(entry.memory, kMostCharge), kMostCharge);
    sum.collectives += entry.collectives;
  }
  return sum;
}

CostNetwork SearchNetwork::network(ChargeOrder order, const FixedLabels& fixed) const {
  Cost most = Cost{order.price_weight} * largest_.price + Cost{order.memory_weight} * largest_.memory;
  int shift = has_secondary(order) ? kPrimaryShift : kSecondaryShift;
  if (most >= (kInfeasible >> shift)) {
    throw UserError(SourceLoc{},
                    "the costs of this step are too large to be compared exactly; is a size, a link or the "
                    "price of memory out of all proportion?");
  }
  bool by_memory = order.price_weight == 0;
  int64_t unit = secondary_unit(by_memory ? largest_.price : largest_.memory);
  auto cost_of = [&](const Table& table, size_t at) {
    if (!table.is_legal[at]) return kInfeasible;
    const Charge& charge = table.entries[at];
    Cost cost = Cost{order.price_weight} * charge.price + Cost{order.memory_weight} * charge.memory;
    if (has_secondary(order)) {
      cost = (cost << (kPrimaryShift - kSecondaryShift)) + (by_memory ? charge.price : charge.memory) / unit;
    }
    return (cost << kSecondaryShift) + charge.collectives;
  };
  CostNetwork network;
  for (size_t v = 0; v < num_labels_.size(); ++v) network.add_variable(fixed[v] >= 0 ? 1 : num_labels_[v]);
  // A table with fixed variables in its scope is cut to their labels.
  std::map<std::vector<int>, int> table_of;
  for (const Factor& factor : factors_) {
    std::vector<int> key{factor.table};
    for (int variable : factor.scope) key.push_back(fixed[static_cast<size_t>(variable)]);
    auto [entry, is_new] = table_of.try_emplace(key, -1);
    if (is_new) {
      const Table& table = tables_[static_cast<size_t>(factor.table)];
      std::vector<int> sizes = table.sizes;
      for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = key[i + 1] >= 0 ? 1 : sizes[i];
      std::vector<Cost> entries;
      std::vector<int> labels(sizes.size(), 0);
      while (true) {
        size_t at = 0;
        for (size_t i = 0; i < sizes.size(); ++i) {
          at = at * static_cast<size_t>(table.sizes[i]) + static_cast<size_t>(key[i + 1] >= 0 ? key[i + 1] : labels[i]);
        }
        entries.push_back(cost_of(table, at));
        size_t i = sizes.size();
        while (i > 0 && ++labels[i - 1] == sizes[i - 1]) labels[--i] = 0;
        if (i == 0) break;
      }
      entry->second = network.add_table(std::move(sizes), std::move(entries));
    }
    network.add_factor(factor.scope, entry->second);
  }
  return network;
}

Charge SearchNetwork::cheapest_charge(Cost cost) const {
  constexpr Cost kOneSecondary = Cost{1} << kSecondaryShift;
  constexpr Cost kOnePrimary = Cost{1} << kPrimaryShift;
  return {static_cast<int64_t>(cost / kOnePrimary),
          static_cast<int64_t>(cost % kOnePrimary / kOneSecondary) * secondary_unit(largest_.memory),
          static_cast<int64_t>(cost % kOneSecondary)};
}

size_t SearchNetwork::offset(const Factor& factor, std::span<const int> assignment) const {
  const Table& table = tables_[static_cast<size_t>(factor.table)];
  size_t at = 0;
  for (size_t i = 0; i < factor.scope.size(); ++i) {
    at = at * static_cast<size_t>(table.sizes[i]) +
         static_cast<size_t>(assignment[static_cast<size_t>(factor.scope[i])]);
  }
  return at;
}

Charge SearchNetwork::charge(std::span<const int> assignment) const {
  Charge total;
  for (const Factor& factor : factors_)
    total += tables_[static_cast<size_t>(factor.table)].entries[offset(factor, assignment)];
  return total;
}

int64_t SearchNetwork::num_choices() const {
  int64_t count = 0;
  for (int labels : num_labels_) count += labels;
  return count;
}

ChosenShardings SearchNetwork::decode(std::span<const int> assignment) const {
  ChosenShardings chosen;
  chosen.nodes.resize(graph_.nodes.size());
  chosen.leaves.resize(graph_.values.size());
  chosen.kept.resize(graph_.values.size());
  chosen.via.resize(graph_.values.size());
  auto label = [&](int variable) { return static_cast<size_t>(assignment[static_cast<size_t>(variable)]); };
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    if (variable_of_node_[n] >= 0) {
      chosen.nodes[n] = space_.choices(space_.kind(n)).strategies[label(variable_of_node_[n])];
    }
  }
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    if (variable_of_leaf_[v] < 0) continue;
    ValueId leaf{static_cast<int32_t>(v)};
    chosen.leaves[v] = space_.at_rest(space_.leaf_kind(leaf))[label(variable_of_leaf_[v])];
  }
  for (const Forms& item : forms_) {
    const TensorType& type = graph_.value(item.value).type;
    const Tensor& of = *tensors_[static_cast<size_t>(tensor_index_.at({type.shape, type.dtype}))];
    size_t at = item.value.position();
    std::vector<TensorSharding>& list =
        item.made_for ? chosen.via[at][static_cast<size_t>(*item.made_for)] : chosen.kept[at];
    for (State form : meaning(item.side).forms[label(item.side.variable)])
      list.push_back(of.conversions.sharding(form));
    // Nothing beside the leaf itself.
    if (list.empty()) list.push_back(*chosen.leaves[at]);
  }
  return chosen;
}

}  // namespace tpc

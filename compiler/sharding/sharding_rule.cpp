#include "compiler/sharding/sharding_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/core/text_parts.h"

namespace tpc {
namespace {

struct Formula {
  std::vector<std::string> operands;
  std::vector<std::string> results;
};

Formula parse_formula(std::string_view formula) {
  size_t arrow = formula.find("->");
  TPC_CHECK(arrow != std::string_view::npos, "formula \"{}\" has no arrow", formula);
  return {split(formula.substr(0, arrow), ','), split(formula.substr(arrow + 2), ',')};
}

std::optional<Factor::Use> use_in(const std::string& term, char letter) {
  size_t position = term.find(letter);
  if (position == std::string::npos) return std::nullopt;
  return Factor::Use{static_cast<int64_t>(position), 1};
}

/// Units other than 1 that some tensor's placement shows for this factor.
void add_found_units(const ShardingRule& rule, int factor_index, const NodeSharding& sharding,
                     std::vector<Strategy>& candidates) {
  const Factor& factor = rule.factors[static_cast<size_t>(factor_index)];
  std::vector<int64_t> units;
  auto add = [&](const std::vector<std::optional<Factor::Use>>& tensor_uses, const std::vector<TensorSharding>& found) {
    for (size_t i = 0; i < found.size(); ++i) {
      if (!tensor_uses[i]) continue;
      for (const Placement& placement : found[i].placements) {
        if (!placement.is_shard_of(tensor_uses[i]->dim) || placement.unit % tensor_uses[i]->unit != 0) continue;
        int64_t unit = placement.unit / tensor_uses[i]->unit;
        if (unit > 1 && std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
      }
    }
  };
  add(factor.operands, sharding.operands);
  add(factor.results, sharding.results);
  for (int64_t unit : units) candidates.push_back(Strategy::factor(factor_index, unit));
}

std::string use_text(size_t tensor, const std::optional<Factor::Use>& use) {
  if (!use) return fmt::format("{}:-", tensor);
  return use->unit == 1 ? fmt::format("{}:{}", tensor, use->dim) : fmt::format("{}:{}/{}", tensor, use->dim, use->unit);
}

}  // namespace

int ShardingRule::find_factor(std::string_view name) const {
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

ShardingRule ShardingRule::einsum(std::string_view formula, std::string_view fixed) {
  Formula parsed = parse_formula(formula);
  ShardingRule rule;
  auto add_letters = [&](const std::string& term) {
    for (char letter : term) {
      std::string name(1, letter);
      if (fixed.find(letter) != std::string_view::npos || rule.find_factor(name) >= 0) continue;
      Factor factor;
      factor.name = name;
      for (const std::string& operand : parsed.operands) factor.operands.push_back(use_in(operand, letter));
      for (const std::string& result : parsed.results) factor.results.push_back(use_in(result, letter));
      rule.factors.push_back(std::move(factor));
    }
  };
  for (const std::string& term : parsed.operands) add_letters(term);
  for (const std::string& term : parsed.results) add_letters(term);
  return rule;
}

ShardingRule& ShardingRule::linear_in_each(std::span<const int> operand_indices) {
  for (int operand : operand_indices) linear.push_back({{operand}});
  return *this;
}

ShardingRule& ShardingRule::linear_jointly(std::vector<int> operand_indices) {
  linear.push_back({std::move(operand_indices)});
  return *this;
}

std::string to_string(const ShardingRule& rule) {
  std::string text;
  for (const Factor& factor : rule.factors) {
    if (!text.empty()) text += "; ";
    text += factor.name + ":";
    for (size_t i = 0; i < factor.operands.size(); ++i) text += " " + use_text(i, factor.operands[i]);
    text += " ->";
    for (size_t i = 0; i < factor.results.size(); ++i) text += " " + use_text(i, factor.results[i]);
  }
  for (const LinearGroup& group : rule.linear) {
    if (!text.empty()) text += "; ";
    text += "linear {";
    for (size_t i = 0; i < group.operands.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", group.operands[i]);
    text += "}";
  }
  return text;
}

Placement operand_placement(const ShardingRule& rule, Strategy strategy, size_t operand) {
  switch (strategy.kind) {
    case Strategy::Kind::kReplicate:
      return Placement::replicate();
    case Strategy::Kind::kFactor: {
      const auto& use = rule.factors[static_cast<size_t>(strategy.index)].operands[operand];
      return use ? Placement::shard(use->dim, use->unit * strategy.unit) : Placement::replicate();
    }
    case Strategy::Kind::kLinear: {
      const auto& group = rule.linear[static_cast<size_t>(strategy.index)].operands;
      bool inside = std::find(group.begin(), group.end(), static_cast<int>(operand)) != group.end();
      return inside ? Placement::partial() : Placement::replicate();
    }
  }
  TPC_UNREACHABLE("strategy kind {}", static_cast<int>(strategy.kind));
}

Placement result_placement(const ShardingRule& rule, Strategy strategy, size_t result) {
  switch (strategy.kind) {
    case Strategy::Kind::kReplicate:
      return Placement::replicate();
    case Strategy::Kind::kFactor: {
      const Factor& factor = rule.factors[static_cast<size_t>(strategy.index)];
      const auto& use = factor.results[result];
      return use ? Placement::shard(use->dim, use->unit * strategy.unit) : Placement::partial(factor.reduce);
    }
    case Strategy::Kind::kLinear:
      return Placement::partial();
  }
  TPC_UNREACHABLE("strategy kind {}", static_cast<int>(strategy.kind));
}

std::vector<Strategy> all_strategies(const ShardingRule& rule) {
  std::vector<Strategy> strategies{Strategy::replicate()};
  for (size_t i = 0; i < rule.factors.size(); ++i) strategies.push_back(Strategy::factor(static_cast<int>(i)));
  for (size_t i = 0; i < rule.linear.size(); ++i) strategies.push_back(Strategy::linear(static_cast<int>(i)));
  return strategies;
}

NodeSharding node_sharding(const ShardingRule& rule, std::span<const Strategy> strategies,
                           std::span<const Shape> operand_shapes, std::span<const Shape> result_shapes,
                           const DeviceMesh& mesh) {
  NodeSharding sharding;
  for (size_t i = 0; i < operand_shapes.size(); ++i) {
    TensorSharding tensor;
    for (Strategy strategy : strategies) tensor.placements.push_back(operand_placement(rule, strategy, i));
    sharding.operands.push_back(canonical(operand_shapes[i], std::move(tensor), mesh));
  }
  for (size_t i = 0; i < result_shapes.size(); ++i) {
    TensorSharding tensor;
    for (Strategy strategy : strategies) tensor.placements.push_back(result_placement(rule, strategy, i));
    sharding.results.push_back(canonical(result_shapes[i], std::move(tensor), mesh));
  }
  return sharding;
}

std::optional<std::string> why_illegal(const ShardingRule& rule, std::span<const Strategy> strategies,
                                       std::span<const Shape> operand_shapes, std::span<const Shape> result_shapes,
                                       const DeviceMesh& mesh) {
  for (size_t axis = 0; axis < strategies.size(); ++axis) {
    if (strategies[axis].kind != Strategy::Kind::kFactor) continue;
    const Factor& factor = rule.factors[static_cast<size_t>(strategies[axis].index)];
    if (factor.inside < 0) continue;
    for (size_t later = axis + 1; later < strategies.size(); ++later) {
      if (strategies[later].splits(factor.inside)) {
        return fmt::format("\"{}\" may be split only inside \"{}\", by axes after it", factor.name,
                           rule.factors[static_cast<size_t>(factor.inside)].name);
      }
    }
  }
  // A raw (not canonical) sharding is asked, so that units are checked too.
  auto check = [&](const Shape& shape, auto&& placement_of) -> std::optional<std::string> {
    TensorSharding tensor;
    for (Strategy strategy : strategies) tensor.placements.push_back(placement_of(strategy));
    return why_illegal(shape, tensor, mesh);
  };
  for (size_t i = 0; i < operand_shapes.size(); ++i) {
    if (auto why = check(operand_shapes[i], [&](Strategy s) { return operand_placement(rule, s, i); })) return why;
  }
  for (size_t i = 0; i < result_shapes.size(); ++i) {
    if (auto why = check(result_shapes[i], [&](Strategy s) { return result_placement(rule, s, i); })) return why;
  }
  return std::nullopt;
}

std::optional<std::vector<Strategy>> find_strategies(const ShardingRule& rule, const NodeSharding& sharding,
                                                     std::span<const Shape> operand_shapes,
                                                     std::span<const Shape> result_shapes, const DeviceMesh& mesh) {
  std::vector<Strategy> candidates = all_strategies(rule);
  for (size_t i = 0; i < rule.factors.size(); ++i) add_found_units(rule, static_cast<int>(i), sharding, candidates);
  std::vector<Strategy> chosen(mesh.num_axes());
  // Kinds and dimensions must agree axis by axis; units (which canonical() may have dropped) decide at the leaf.
  auto agrees = [](const Placement& rule_side, const Placement& found) {
    return rule_side.kind == found.kind && rule_side.dim == found.dim && rule_side.reduce == found.reduce;
  };
  auto fits_axis = [&](size_t axis, Strategy strategy) {
    for (size_t i = 0; i < operand_shapes.size(); ++i) {
      if (!agrees(operand_placement(rule, strategy, i), sharding.operands[i].placements[axis])) return false;
    }
    for (size_t i = 0; i < result_shapes.size(); ++i) {
      if (!agrees(result_placement(rule, strategy, i), sharding.results[i].placements[axis])) return false;
    }
    return true;
  };
  auto search = [&](auto&& self, size_t axis) -> bool {
    if (axis == mesh.num_axes()) {
      return !why_illegal(rule, chosen, operand_shapes, result_shapes, mesh) &&
             node_sharding(rule, chosen, operand_shapes, result_shapes, mesh) == sharding;
    }
    for (Strategy candidate : candidates) {
      if (!fits_axis(axis, candidate)) continue;
      chosen[axis] = candidate;
      if (self(self, axis + 1)) return true;
    }
    return false;
  };
  if (!search(search, 0)) return std::nullopt;
  return chosen;
}

}  // namespace tpc

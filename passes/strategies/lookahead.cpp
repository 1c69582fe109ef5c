#include "passes/strategies/lookahead.h"

#include <numeric>

namespace tpc {

Lookahead::Lookahead(const AxisState& state, FixedStrategy fixed)
    : state_(state), fixed_(std::move(fixed)), uses_(uses(state.graph())) {}

std::optional<int64_t> Lookahead::absorbed(ValueId value, int64_t dim) {
  auto [entry, is_new] = known_.try_emplace({value, dim}, std::nullopt);
  if (!is_new) return entry->second;
  int64_t unit = 1;
  bool any = false;
  for (const Use& use : uses_[value.position()]) {
    size_t node = static_cast<size_t>(use.node);
    if (state_.graph().nodes[node].phase != Phase::kForward) continue;
    std::optional<int64_t> needed = through(node, static_cast<size_t>(use.operand), dim);
    if (!needed) return std::nullopt;
    unit = std::lcm(unit, *needed);
    any = true;
  }
  if (!any) return std::nullopt;
  known_[{value, dim}] = unit;
  return unit;
}

std::optional<int64_t> Lookahead::through(size_t node, size_t operand, int64_t dim) {
  const RuledNode& ruled = state_.ruled(node);
  if (!ruled.has_rule) return std::nullopt;
  std::optional<Strategy> fixed = fixed_(node);
  for (size_t f = 0; f < ruled.rule.factors.size(); ++f) {
    const Factor& factor = ruled.rule.factors[f];
    const std::optional<Factor::Use>& use = factor.operands[operand];
    if (!use || use->dim != dim) continue;
    if (fixed && !fixed->splits(static_cast<int>(f))) continue;
    int64_t unit = 1;
    bool carried = true;
    for (size_t r = 0; r < factor.results.size() && carried; ++r) {
      ValueId result = state_.graph().nodes[node].results[r];
      if (!factor.results[r] || uses_[result.position()].empty()) continue;
      // A result used in backward only (a norm's statistics) follows by itself.
      bool forward_use = false;
      for (const Use& result_use : uses_[result.position()]) {
        forward_use =
            forward_use || state_.graph().nodes[static_cast<size_t>(result_use.node)].phase == Phase::kForward;
      }
      if (!forward_use) continue;
      std::optional<int64_t> needed = absorbed(result, factor.results[r]->dim);
      carried = needed.has_value();
      if (!carried) break;
      int64_t result_unit = factor.results[r]->unit;
      unit = std::lcm(unit, std::lcm(*needed, result_unit) / result_unit);
    }
    if (carried) return use->unit * unit;
  }
  return std::nullopt;
}

}  // namespace tpc

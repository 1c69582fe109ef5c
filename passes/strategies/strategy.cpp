#include "passes/strategies/strategy.h"

#include <array>

#include "passes/registry.h"
#include "passes/strategies/megatron.h"
#include "passes/strategies/search.h"

namespace tpc {
namespace {

constexpr std::array<StrategyInfo, 2> kStrategies{{
    {"megatron", "the well-known rules: column/row pairs, attention by heads, vocabulary-parallel table and loss",
     megatron_mesh, megatron_choose},
    {"search", "the cheapest plan of the whole step, proved: least bytes or time, then least memory", search_mesh,
     search_choose},
}};

}  // namespace

const StrategyInfo* find_strategy(std::string_view name) {
  for (const StrategyInfo& info : kStrategies) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyInfo& info : kStrategies) names.emplace_back(info.name);
  return names;
}

}  // namespace tpc

#include "passes/solver/cost_table.h"

#include <algorithm>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

uint64_t content_hash(const CostTable& table) {
  uint64_t hash = table.sizes.size();
  for (int size : table.sizes) hash = mix_hash(hash, static_cast<uint64_t>(size));
  for (Cost entry : table.entries) {
    hash = mix_hash(hash, static_cast<uint64_t>(entry));
    hash = mix_hash(hash, static_cast<uint64_t>(entry >> 64));
  }
  return hash;
}

}  // namespace

std::string to_string(Cost cost) {
  if (cost >= kInfeasible) return "infeasible";
  if (cost == 0) return "0";
  std::string digits;
  bool negative = cost < 0;
  // Digits of negative costs are negative remainders: the least cost has no opposite.
  for (; cost != 0; cost /= 10) {
    int digit = static_cast<int>(cost % 10);
    digits.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

int64_t count_entries(const std::vector<int>& sizes, int64_t limit) {
  int64_t count = 1;
  for (int size : sizes) {
    TPC_CHECK(size >= 1, "a table of size {}", size);
    if (count > limit / size) return limit;
    count *= size;
  }
  return count;
}

int CostTableSet::insert(CostTable table) {
  uint64_t hash = content_hash(table);
  auto [begin, end] = by_content_.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    if (tables_[static_cast<size_t>(entry->second)] == table) return entry->second;
  }
  int index = static_cast<int>(tables_.size());
  by_content_.emplace(hash, index);
  tables_.push_back(std::move(table));
  return index;
}

std::vector<CostTable> CostTableSet::take_tables() {
  by_content_.clear();
  return std::exchange(tables_, {});
}

}  // namespace tpc

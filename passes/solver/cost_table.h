/// Costs and tables of costs: the numbers of a cost network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tpc {

/// Costs are compared and added only; what their digits mean (bytes, then memory, ...) is the caller's affair.
__extension__ using Cost = __int128;

/// Forbidden. A sum that reaches it counts as infeasible too.
inline constexpr Cost kInfeasible = Cost{1} << 120;

/// Decimal digits, or "infeasible" from kInfeasible on.
std::string to_string(Cost cost);

/// a + b, at most kInfeasible; neither operand may be above it, nor the sum below -2^126.
constexpr Cost add_costs(Cost a, Cost b) {
  Cost sum = a + b;
  return a < kInfeasible && b < kInfeasible && sum < kInfeasible ? sum : kInfeasible;
}

/// A cost for each combination of labels, in row-major order: the last variable varies fastest. No sizes: one entry.
struct CostTable {
  std::vector<int> sizes;
  std::vector<Cost> entries;
  bool operator==(const CostTable&) const = default;
};

/// Keeps one copy of equal tables and numbers them in the order of their first insertion.
class CostTableSet {
 public:
  int insert(CostTable table);
  const std::vector<CostTable>& tables() const { return tables_; }
  /// Hands the tables out and leaves the set empty.
  std::vector<CostTable> take_tables();

 private:
  std::vector<CostTable> tables_;
  std::unordered_multimap<uint64_t, int> by_content_;  // looked up, never iterated as a whole
};

/// The number of combinations of labels, at most `limit` (>= 1): no overflow.
int64_t count_entries(const std::vector<int>& sizes, int64_t limit);

/// Hash of a bit pattern, the same on every run.
constexpr uint64_t mix_hash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio: spreads low bits over the high ones
  return hash ^ (hash >> 32);
}

}  // namespace tpc

/// Least-cost assignments of a cost network, exactly: min-sum variable elimination.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/solver/certificate.h"
#include "passes/solver/cost_network.h"

namespace tpc {

struct SolveOptions {
  /// Computes buckets of equal content once; the result is the same without, only later.
  bool reuse_buckets = true;
  /// Entries x labels of the largest bucket that is tried.
  int64_t max_entries = int64_t{1} << 27;
  /// This variable is eliminated after all others; -1: any.
  int last_variable = -1;
};

// GCC 12 takes the scoped SolveStatus::kInfeasible for a declaration that hides the cost of that name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
enum class SolveStatus : uint8_t {
  kOptimal,
  kInfeasible,  ///< no assignment costs less than tpc::kInfeasible
  kBounded,     ///< solve_by_bounds only: not proved optimal, but no assignment costs less than lower_bound
  kTooLarge,    ///< some bucket would pass max_entries, and nothing better is known
};
#pragma GCC diagnostic pop

struct SolveStatistics {
  int width = 0;               ///< most variables of a message
  int64_t largest_bucket = 0;  ///< entries x labels
  int buckets = 0;
  int distinct_buckets = 0;  ///< those that were computed

  // Of solve_by_bounds; the above is then of its last elimination. 0 where solve did without.
  int prunings = 0;         ///< rounds
  int64_t labels = 0;       ///< of all variables
  int64_t labels_left = 0;  ///< of the variables in the last elimination
  Cost lower_bound = 0;     ///< before the last elimination: with `cost` the gap that labels may not exceed
};

struct Solution {
  SolveStatus status = SolveStatus::kTooLarge;
  Cost cost = kInfeasible;      ///< kInfeasible unless optimal or bounded
  std::vector<int> assignment;  ///< a label per variable; empty unless optimal or bounded
  Certificate certificate;      ///< proves the assignment optimal; empty unless optimal
  SolveStatistics statistics;
};

/// Eliminates the variables one by one, always the one whose bucket is smallest: sums the tables that mention it, keeps
/// the minimum over its labels as a message to the rest. Among equally cheap assignments the result is the first in the
/// order that compares the variable eliminated last first. Depends on the network alone.
///
/// Each message is shifted so that its least entry is 0 and kept once per content; a bucket is then known by its tables
/// and how their scopes overlap. Layers that repeat repeat their buckets, without any assumption that they must.
///
/// Time: the sum of entries x labels over the distinct buckets, and nearly linear in the rest.
Solution solve(const CostNetwork& network, const SolveOptions& options = {});

}  // namespace tpc

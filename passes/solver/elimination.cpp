#include "passes/solver/elimination.h"

#include <utility>

#include "compiler/core/check.h"
#include "passes/solver/elimination_run.h"

namespace tpc {

Solution solve(const CostNetwork& network, const SolveOptions& options) {
  Solution solution;
  EliminationOrder order = elimination_order(network, options.max_entries, options.last_variable);
  if (order.largest_bucket > options.max_entries) {
    solution.statistics.width = order.width;
    solution.statistics.largest_bucket = order.largest_bucket;
    return solution;
  }
  Elimination elimination(network, options.reuse_buckets, std::move(order));
  bool feasible = elimination.run();
  solution.statistics = elimination.statistics();
  if (!feasible) {
    solution.status = SolveStatus::kInfeasible;
    return solution;
  }
  solution.status = SolveStatus::kOptimal;
  solution.assignment.assign(static_cast<size_t>(network.num_variables()), 0);
  elimination.complete(solution.assignment);
  solution.certificate = elimination.take_certificate();
  solution.cost = solution.certificate.bound;
  Cost cost = network.cost(solution.assignment);
  TPC_CHECK(cost == solution.cost, "eliminated to {}, but the assignment costs {}", to_string(solution.cost),
            to_string(cost));
  return solution;
}

}  // namespace tpc

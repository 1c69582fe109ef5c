#include "passes/solver/min_marginals.h"

#include "compiler/core/check.h"

namespace tpc {

std::vector<Cost> min_marginals(const CostNetwork& network, int variable, const SolveOptions& options) {
  TPC_CHECK(variable >= 0 && variable < network.num_variables(), "variable {} of {}", variable,
            network.num_variables());
  SolveOptions with_last = options;
  with_last.last_variable = variable;
  Solution solution = solve(network, with_last);
  if (solution.status == SolveStatus::kTooLarge) return {};
  std::vector<Cost> result(static_cast<size_t>(network.num_labels(variable)), solution.cost);
  if (solution.status == SolveStatus::kInfeasible) return result;
  // The last variable's bucket adds up costs by its label alone; only their minimum went into the solution's cost.
  const Certificate& certificate = solution.certificate;
  auto add = [&](const CostTable& table) {
    for (size_t label = 0; label < result.size(); ++label) {
      result[label] = add_costs(result[label], table.entries[label]);
    }
  };
  for (const Certificate::Bucket& bucket : certificate.buckets) {
    if (bucket.variable != variable) continue;
    result.assign(result.size(), solution.cost - bucket.constant);
    for (int f : bucket.factors) {
      add(network.tables()[static_cast<size_t>(network.factors()[static_cast<size_t>(f)].table)]);
    }
    for (int m : bucket.messages) {
      const Certificate::Bucket& sender = certificate.buckets[static_cast<size_t>(m)];
      add(certificate.tables[static_cast<size_t>(sender.table)]);
    }
  }
  return result;
}

}  // namespace tpc

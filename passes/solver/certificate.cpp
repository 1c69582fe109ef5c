#include "passes/solver/certificate.h"

#include <fmt/format.h>

#include "passes/solver/elimination_check.h"
#include "passes/solver/label_check.h"

namespace tpc {
namespace {

/// Puts what the reduction leaves in the network's place.
std::optional<std::string> check_reduction(const Certificate::Reduction& reduction, Cost bound, CostNetwork& network) {
  if (auto wrong = remove_unsupported(reduction.unsupported, network)) return wrong;
  if (auto wrong = replace_factors(reduction.buckets, reduction.tables, network)) return wrong;
  return remove_costly(reduction, bound, network);
}

std::optional<std::string> check_assignment(const CostNetwork& network, std::span<const int> assignment, Cost bound) {
  if (assignment.size() != static_cast<size_t>(network.num_variables())) {
    return "the assignment does not have a label per variable";
  }
  for (size_t v = 0; v < assignment.size(); ++v) {
    if (assignment[v] < 0 || assignment[v] >= network.num_labels(static_cast<int>(v))) {
      return fmt::format("variable {} has no label {}", v, assignment[v]);
    }
  }
  Cost cost = network.cost(assignment);
  if (cost >= kInfeasible) return "the assignment is infeasible";
  if (cost == bound) return std::nullopt;
  return fmt::format("the assignment costs {}, the bound is {}", to_string(cost), to_string(bound));
}

}  // namespace

std::optional<std::string> refute(const Certificate& certificate, const CostNetwork& network,
                                  std::span<const int> assignment) {
  std::optional<CostNetwork> left;
  for (size_t r = 0; r < certificate.reductions.size(); ++r) {
    if (!left) left = network;
    auto wrong = check_reduction(certificate.reductions[r], certificate.bound, *left);
    if (wrong) return fmt::format("reduction {}: {}", r, *wrong);
  }
  const CostNetwork& last = left ? *left : network;
  if (auto wrong = check_elimination(certificate.buckets, certificate.tables, last, certificate.bound)) return wrong;
  return check_assignment(network, assignment, certificate.bound);
}

}  // namespace tpc

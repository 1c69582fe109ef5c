/// The part of the certificate's check that is about messages of eliminations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/solver/certificate.h"

namespace tpc {

/// nullopt when the buckets prove that every assignment costs at least `bound` (see Certificate), else what is wrong.
/// Throws nothing, whatever the buckets and tables hold.
std::optional<std::string> check_elimination(const std::vector<Certificate::Bucket>& buckets,
                                             const std::vector<CostTable>& tables, const CostNetwork& network,
                                             Cost bound);

/// nullopt when the buckets prove that no feasible assignment costs less in the network than with the factors that
/// Certificate::Reduction::buckets tells: these are then the network's. Throws nothing either.
std::optional<std::string> replace_factors(const std::vector<Certificate::Bucket>& buckets,
                                           const std::vector<CostTable>& tables, CostNetwork& network);

}  // namespace tpc

/// Proofs of optimality for assignments of a cost network, checkable without trusting how they were found.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passes/solver/cost_network.h"

namespace tpc {

/// Why no assignment costs less: the messages of an elimination. Each factor is in exactly one bucket and each message
/// goes into exactly one later bucket, and in every bucket, for all labels of its variables,
///     sum(factors) + sum(incoming messages) >= own message + constant.
/// Adding up all buckets, every message stands once on each side and cancels: an assignment costs at least the sum of
/// the constants. An infeasible sum satisfies any inequality, since no feasible assignment runs through it.
struct Certificate {
  struct Bucket {
    /// The variable that the message no longer mentions; -1 for a bucket that eliminates none.
    int variable = -1;
    std::vector<int> factors;   ///< of the network
    std::vector<int> messages;  ///< those of earlier buckets, by bucket
    /// Of its own message: all variables of its factors and messages but `variable` and those of a single label.
    std::vector<int> scope;
    int table = 0;  ///< the message, into tables
    Cost constant = 0;
    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;
  std::vector<CostNetwork::Table> tables;
  /// What every assignment costs at least: the sum of the constants, and of the messages without variables that no
  /// bucket takes.
  Cost bound = 0;
  bool operator==(const Certificate&) const = default;
};

/// nullopt when the certificate proves that `assignment` is optimal for `network`; else what is wrong, in words. Throws
/// nothing, whatever the certificate and the assignment hold. Constants and entries may have any sign, but from
/// -kInfeasible + 1 on; a sum counts as infeasible by its size (not by a forbidden entry) only where all are >= 0.
std::optional<std::string> refute(const Certificate& certificate, const CostNetwork& network,
                                  std::span<const int> assignment);

}  // namespace tpc

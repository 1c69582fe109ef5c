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
///
/// Where the network is too large for that, it is reduced first, to networks of which an assignment costs no more than
/// before, except those that are known to cost at least the bound. The elimination is then that of the last one.
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
  /// Labels are numbered as the reductions before leave them.
  struct Label {
    int variable = 0;
    int label = 0;
    bool operator==(const Label&) const = default;
  };
  /// No feasible entry of this factor has the label, or only with labels that stand earlier in the list.
  struct Unsupported {
    Label removed;
    int factor = 0;
    bool operator==(const Unsupported&) const = default;
  };
  /// In this order: removes labels (the others are numbered anew), replaces factors, removes labels again.
  struct Reduction {
    std::vector<Unsupported> unsupported;
    /// An elimination of some variables: new factors are the messages that no bucket takes, in the order of the
    /// buckets, and the sum of the constants. They stand after the factors that are in no bucket. No buckets: the
    /// factors stay as they are. The variables stay in any case.
    std::vector<Bucket> buckets;
    std::vector<CostNetwork::Table> tables;
    /// Per factor a cost for each label of its first variable, then of its second, and so on, such that every feasible
    /// entry is at least the sum of the messages to its labels. An assignment then costs at least the messages to its
    /// labels, and one with a certain label at least those to this label and, for every other variable, the least of
    /// those to a label of it.
    std::vector<std::vector<Cost>> messages;
    std::vector<Label> costly;  ///< what costs at least the certificate's bound, by this
    bool operator==(const Reduction&) const = default;
  };
  std::vector<Reduction> reductions;
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

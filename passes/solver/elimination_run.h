/// One run of variable elimination, of all variables or the first ones of an order.
#pragma once

#include <unordered_map>
#include <vector>

#include "passes/solver/bucket.h"
#include "passes/solver/elimination.h"
#include "passes/solver/elimination_order.h"

namespace tpc {

/// Eliminates the variables of an order, which may leave some out: what these are in then stays.
class Elimination {
 public:
  /// Refers to the network.
  Elimination(const CostNetwork& network, bool reuse_buckets, EliminationOrder order);

  /// False when no assignment is feasible. Once only, and before all others.
  bool run();

  /// Gives the eliminated variables the best labels for those of the others.
  void complete(std::vector<int>& assignment) const;

  /// The same variables with the factors and messages that mention none of the eliminated ones, and the constant.
  CostNetwork left() const;

  /// The buckets, all of them in `bound`. Hands the tables out: afterwards `left` may not be called.
  Certificate take_certificate();

  const SolveStatistics& statistics() const { return statistics_; }

 private:
  /// What a bucket comes to, in its own numbering of the variables.
  struct Outcome {
    std::vector<int> scope;  // BucketResult::scope
    int message = 0;         // index into the set of messages
    Cost constant = 0;
    std::vector<uint16_t> best_label;
  };

  /// What a bucket is: per term its table, then the bucket's number for each of its variables. Domain sizes follow from
  /// the tables, and messages have their least entry at 0, so that equal keys have equal outcomes.
  using BucketKey = std::vector<int>;

  struct BucketKeyHash {
    size_t operator()(const BucketKey& key) const {
      uint64_t hash = key.size();
      for (int part : key) hash = mix_hash(hash, static_cast<uint64_t>(part));
      return hash;
    }
  };

  /// A factor or message in the bucket at hand.
  struct Term {
    int table;     // of the network; messages are numbered after those
    int place;     // of the eliminated variable in the scope
    int sequence;  // factors in the network's order, then messages in order of creation
    const std::vector<int>* scope;
  };

  int first_turn(const std::vector<int>& scope) const;
  void sort_factors_by_turn();
  bool eliminate(size_t turn);
  void add_bucket(Certificate::Bucket bucket);
  void gather_terms(size_t turn, Certificate::Bucket& bucket);
  void number_variables(int eliminated);
  int find_outcome();
  BucketResult compute() const;
  bool add_fixed_factors();

  const CostNetwork& network_;
  bool reuse_buckets_;
  EliminationOrder order_;
  // Of each variable: -1 for those of one label, which are never eliminated; the number of turns for those that stay.
  std::vector<int> turn_;

  // Per turn, and those that stay.
  std::vector<size_t> first_factor_;
  std::vector<int> factors_at_;
  std::vector<int> fixed_factors_;
  // Messages wait at the turn that takes them, in lists linked from the newest to older ones.
  std::vector<int> last_message_;     // per turn, and those that stay
  std::vector<int> earlier_message_;  // per bucket

  // The bucket at hand.
  std::vector<Term> terms_;
  std::vector<int> variables_;  // by the bucket's numbers
  std::vector<int> local_;      // the bucket's number of a variable, -1 outside number_variables
  BucketKey key_;

  CostTableSet messages_;
  std::vector<Outcome> outcomes_;
  std::vector<int> outcome_of_bucket_;  // of the buckets that eliminate a variable; they come first
  std::unordered_map<BucketKey, int, BucketKeyHash> known_;
  Certificate certificate_;
  SolveStatistics statistics_;
};

}  // namespace tpc

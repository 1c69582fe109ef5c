#include "passes/solver/elimination.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "compiler/core/check.h"
#include "passes/solver/bucket.h"
#include "passes/solver/elimination_order.h"

namespace tpc {
namespace {

constexpr int kNone = -1;

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

class Elimination {
 public:
  Elimination(const CostNetwork& network, const SolveOptions& options, const EliminationOrder& order)
      : network_(network), options_(options), order_(order) {
    auto count = static_cast<size_t>(network.num_variables());
    turn_.assign(count, kNone);
    for (size_t i = 0; i < order.variables.size(); ++i) turn_[index(order.variables[i])] = static_cast<int>(i);
    local_.assign(count, kNone);
    sort_factors_by_turn();
  }

  Solution run() {
    solution_.statistics.width = order_.width;
    solution_.statistics.largest_bucket = order_.largest_bucket;
    solution_.certificate.buckets.reserve(order_.variables.size() + 1);
    bool feasible = true;
    for (size_t turn = 0; turn < order_.variables.size() && feasible; ++turn) feasible = eliminate(turn);
    feasible = feasible && add_fixed_factors() && solution_.certificate.bound < kInfeasible;
    if (!feasible) {
      solution_.status = SolveStatus::kInfeasible;
      solution_.certificate = {};
      return std::move(solution_);
    }
    solution_.status = SolveStatus::kOptimal;
    solution_.cost = solution_.certificate.bound;
    walk_back();
    solution_.certificate.tables = messages_.take_tables();
    Cost cost = network_.cost(solution_.assignment);
    TPC_CHECK(cost == solution_.cost, "eliminated to {}, but the assignment costs {}", to_string(solution_.cost),
              to_string(cost));
    return std::move(solution_);
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }

  /// The turn at which a factor or message is used up: the first of its variables'. kNone: it has no variable of two
  /// or more labels.
  int first_turn(const std::vector<int>& scope) const {
    int first = kNone;
    for (int variable : scope) {
      int turn = turn_[index(variable)];
      if (turn != kNone && (first == kNone || turn < first)) first = turn;
    }
    return first;
  }

  /// A counting sort: factors_at_ between first_factor_[turn] and first_factor_[turn + 1], in the network's order.
  void sort_factors_by_turn() {
    const std::vector<CostNetwork::Factor>& factors = network_.factors();
    std::vector<int> turns;
    turns.reserve(factors.size());
    first_factor_.assign(order_.variables.size() + 1, 0);
    for (const CostNetwork::Factor& factor : factors) {
      turns.push_back(first_turn(factor.scope));
      if (turns.back() != kNone) ++first_factor_[index(turns.back()) + 1];
    }
    for (size_t turn = 1; turn < first_factor_.size(); ++turn) first_factor_[turn] += first_factor_[turn - 1];
    factors_at_.resize(first_factor_.back());
    std::vector<size_t> next = first_factor_;
    for (size_t f = 0; f < factors.size(); ++f) {
      if (turns[f] == kNone) {
        fixed_factors_.push_back(static_cast<int>(f));
      } else {
        factors_at_[next[index(turns[f])]++] = static_cast<int>(f);
      }
    }
    last_message_.assign(order_.variables.size(), kNone);
  }

  /// False when the bucket has no feasible entry.
  bool eliminate(size_t turn) {
    Certificate::Bucket bucket;
    bucket.variable = order_.variables[turn];
    gather_terms(turn, bucket);
    if (terms_.empty()) return true;  // in no factor: any label does
    number_variables(bucket.variable);
    int found = find_outcome();
    const Outcome& outcome = outcomes_[index(found)];
    if (outcome.constant >= kInfeasible) return false;
    bucket.scope.reserve(outcome.scope.size());
    for (int variable : outcome.scope) bucket.scope.push_back(variables_[index(variable)]);
    bucket.table = outcome.message;
    bucket.constant = outcome.constant;
    outcome_of_bucket_.push_back(found);
    add_bucket(std::move(bucket));
    return true;
  }

  void add_bucket(Certificate::Bucket bucket) {
    Certificate& certificate = solution_.certificate;
    certificate.bound = add_costs(certificate.bound, bucket.constant);
    int number = static_cast<int>(certificate.buckets.size());
    int turn = first_turn(bucket.scope);
    earlier_message_.push_back(turn == kNone ? kNone : std::exchange(last_message_[index(turn)], number));
    certificate.buckets.push_back(std::move(bucket));
    ++solution_.statistics.buckets;
  }

  /// Terms in an order that repeats where the network does: by table, then by where the variable stands.
  void gather_terms(size_t turn, Certificate::Bucket& bucket) {
    terms_.clear();
    auto add = [&](int table, int sequence, const std::vector<int>& scope) {
      auto place = std::find(scope.begin(), scope.end(), bucket.variable) - scope.begin();
      terms_.push_back({table, static_cast<int>(place), sequence, &scope});
    };
    int num_tables = static_cast<int>(network_.tables().size());
    int num_factors = static_cast<int>(network_.factors().size());
    bucket.factors.assign(factors_at_.begin() + static_cast<std::ptrdiff_t>(first_factor_[turn]),
                          factors_at_.begin() + static_cast<std::ptrdiff_t>(first_factor_[turn + 1]));
    for (int f : bucket.factors) add(network_.factors()[index(f)].table, f, network_.factors()[index(f)].scope);
    for (int m = last_message_[turn]; m != kNone; m = earlier_message_[index(m)]) {
      bucket.messages.push_back(m);
      const Certificate::Bucket& sender = solution_.certificate.buckets[index(m)];
      add(num_tables + sender.table, num_factors + m, sender.scope);
    }
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) {
      if (a.table != b.table) return a.table < b.table;
      return a.place != b.place ? a.place < b.place : a.sequence < b.sequence;
    });
  }

  /// Numbers the bucket's variables by first appearance and writes its key.
  void number_variables(int eliminated) {
    variables_.assign(1, eliminated);
    local_[index(eliminated)] = 0;
    key_.clear();
    for (const Term& term : terms_) {
      key_.push_back(term.table);
      for (int variable : *term.scope) {
        int& local = local_[index(variable)];
        if (local == kNone && turn_[index(variable)] != kNone) {
          local = static_cast<int>(variables_.size());
          variables_.push_back(variable);
        }
        key_.push_back(local == kNone ? kSingleLabel : local);
      }
    }
    for (int variable : variables_) local_[index(variable)] = kNone;
  }

  int find_outcome() {
    int next = static_cast<int>(outcomes_.size());
    if (options_.reuse_buckets) {
      auto [entry, added] = known_.try_emplace(key_, next);
      if (!added) return entry->second;
    }
    ++solution_.statistics.distinct_buckets;
    BucketResult result = compute();
    int message = messages_.insert(std::move(result.message));
    outcomes_.push_back({std::move(result.scope), message, result.constant, std::move(result.best_label)});
    return next;
  }

  BucketResult compute() const {
    std::vector<int> sizes;
    for (int variable : variables_) sizes.push_back(network_.num_labels(variable));
    std::vector<BucketTerm> terms;
    const int* numbers = key_.data();
    size_t num_tables = network_.tables().size();
    for (const Term& term : terms_) {
      size_t table = index(term.table);
      bool is_factor = table < num_tables;
      terms.push_back({is_factor ? &network_.tables()[table] : &messages_.tables()[table - num_tables],
                       {numbers + 1, term.scope->size()}});
      numbers += 1 + term.scope->size();
    }
    return eliminate_bucket(sizes, terms);
  }

  /// A last bucket for the factors that leave no choice. False when their sum is infeasible.
  bool add_fixed_factors() {
    if (fixed_factors_.empty()) return true;
    Certificate::Bucket bucket;
    bucket.variable = kNone;
    bucket.factors = fixed_factors_;
    bucket.table = messages_.insert({{}, {0}});
    for (int f : fixed_factors_) {
      int table = network_.factors()[index(f)].table;
      bucket.constant = add_costs(bucket.constant, network_.tables()[index(table)].entries[0]);
    }
    if (bucket.constant >= kInfeasible) return false;
    ++solution_.statistics.distinct_buckets;
    add_bucket(std::move(bucket));
    return true;
  }

  /// A variable's best label depends on variables eliminated later only.
  void walk_back() {
    std::vector<int>& assignment = solution_.assignment;
    assignment.assign(turn_.size(), 0);
    for (size_t b = outcome_of_bucket_.size(); b-- > 0;) {
      const Certificate::Bucket& bucket = solution_.certificate.buckets[b];
      size_t entry = 0;
      for (int variable : bucket.scope) {
        entry = entry * index(network_.num_labels(variable)) + index(assignment[index(variable)]);
      }
      assignment[index(bucket.variable)] = outcomes_[index(outcome_of_bucket_[b])].best_label[entry];
    }
  }

  const CostNetwork& network_;
  const SolveOptions& options_;
  const EliminationOrder& order_;
  std::vector<int> turn_;  // of each variable; kNone for those of one label, which are never eliminated

  std::vector<size_t> first_factor_;
  std::vector<int> factors_at_;
  std::vector<int> fixed_factors_;
  // Messages wait at the turn that takes them, in lists linked from the newest to older ones.
  std::vector<int> last_message_;     // per turn
  std::vector<int> earlier_message_;  // per bucket

  // The bucket at hand.
  std::vector<Term> terms_;
  std::vector<int> variables_;  // by the bucket's numbers
  std::vector<int> local_;      // the bucket's number of a variable, kNone outside number_variables
  BucketKey key_;

  CostTableSet messages_;
  std::vector<Outcome> outcomes_;
  std::vector<int> outcome_of_bucket_;  // of the buckets that eliminate a variable; they come first
  std::unordered_map<BucketKey, int, BucketKeyHash> known_;
  Solution solution_;
};

}  // namespace

Solution solve(const CostNetwork& network, const SolveOptions& options) {
  EliminationOrder order = elimination_order(network, options.max_entries);
  if (order.largest_bucket > options.max_entries) {
    Solution solution;
    solution.status = SolveStatus::kTooLarge;
    solution.statistics.width = order.width;
    solution.statistics.largest_bucket = order.largest_bucket;
    return solution;
  }
  return Elimination(network, options, order).run();
}

}  // namespace tpc

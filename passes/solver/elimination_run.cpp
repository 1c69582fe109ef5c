#include "passes/solver/elimination_run.h"

#include <algorithm>
#include <utility>

namespace tpc {
namespace {

constexpr int kNone = -1;

size_t index(int i) { return static_cast<size_t>(i); }

}  // namespace

Elimination::Elimination(const CostNetwork& network, bool reuse_buckets, EliminationOrder order)
    : network_(network), reuse_buckets_(reuse_buckets), order_(std::move(order)) {
  auto count = index(network.num_variables());
  turn_.assign(count, kNone);
  for (size_t v = 0; v < count; ++v) {
    if (network.num_labels(static_cast<int>(v)) > 1) turn_[v] = static_cast<int>(order_.variables.size());
  }
  for (size_t i = 0; i < order_.variables.size(); ++i) turn_[index(order_.variables[i])] = static_cast<int>(i);
  local_.assign(count, kNone);
  sort_factors_by_turn();
}

bool Elimination::run() {
  statistics_.width = order_.width;
  statistics_.largest_bucket = order_.largest_bucket;
  size_t turns = order_.variables.size();
  certificate_.buckets.reserve(turns + 1);
  for (size_t turn = 0; turn < turns; ++turn) {
    if (!eliminate(turn)) return false;
  }
  bool complete = std::find(turn_.begin(), turn_.end(), static_cast<int>(turns)) == turn_.end();
  if (complete && !add_fixed_factors()) return false;
  return certificate_.bound < kInfeasible;
}

/// The turn at which a factor or message is used up: the first of its variables'. kNone: it has no variable of two
/// or more labels.
int Elimination::first_turn(const std::vector<int>& scope) const {
  int first = kNone;
  for (int variable : scope) {
    int turn = turn_[index(variable)];
    if (turn != kNone && (first == kNone || turn < first)) first = turn;
  }
  return first;
}

/// A counting sort: factors_at_ between first_factor_[turn] and first_factor_[turn + 1], in the network's order.
void Elimination::sort_factors_by_turn() {
  const std::vector<CostNetwork::Factor>& factors = network_.factors();
  std::vector<int> turns;
  turns.reserve(factors.size());
  size_t num_turns = order_.variables.size() + 1;  // the last is never: what stays
  first_factor_.assign(num_turns + 1, 0);
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
  last_message_.assign(num_turns, kNone);
}

/// False when the bucket has no feasible entry.
bool Elimination::eliminate(size_t turn) {
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

void Elimination::add_bucket(Certificate::Bucket bucket) {
  certificate_.bound = add_costs(certificate_.bound, bucket.constant);
  int number = static_cast<int>(certificate_.buckets.size());
  int turn = first_turn(bucket.scope);
  earlier_message_.push_back(turn == kNone ? kNone : std::exchange(last_message_[index(turn)], number));
  certificate_.buckets.push_back(std::move(bucket));
  ++statistics_.buckets;
}

/// Terms in an order that repeats where the network does: by table, then by where the variable stands.
void Elimination::gather_terms(size_t turn, Certificate::Bucket& bucket) {
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
    const Certificate::Bucket& sender = certificate_.buckets[index(m)];
    add(num_tables + sender.table, num_factors + m, sender.scope);
  }
  std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) {
    if (a.table != b.table) return a.table < b.table;
    return a.place != b.place ? a.place < b.place : a.sequence < b.sequence;
  });
}

/// Numbers the bucket's variables by first appearance and writes its key.
void Elimination::number_variables(int eliminated) {
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

int Elimination::find_outcome() {
  int next = static_cast<int>(outcomes_.size());
  if (reuse_buckets_) {
    auto [entry, added] = known_.try_emplace(key_, next);
    if (!added) return entry->second;
  }
  ++statistics_.distinct_buckets;
  BucketResult result = compute();
  int message = messages_.insert(std::move(result.message));
  outcomes_.push_back({std::move(result.scope), message, result.constant, std::move(result.best_label)});
  return next;
}

BucketResult Elimination::compute() const {
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
bool Elimination::add_fixed_factors() {
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
  ++statistics_.distinct_buckets;
  add_bucket(std::move(bucket));
  fixed_factors_.clear();
  return true;
}

void Elimination::complete(std::vector<int>& assignment) const {
  // A variable's best label depends on variables eliminated later only.
  for (size_t b = outcome_of_bucket_.size(); b-- > 0;) {
    const Certificate::Bucket& bucket = certificate_.buckets[b];
    size_t entry = 0;
    for (int variable : bucket.scope) {
      entry = entry * index(network_.num_labels(variable)) + index(assignment[index(variable)]);
    }
    assignment[index(bucket.variable)] = outcomes_[index(outcome_of_bucket_[b])].best_label[entry];
  }
}

CostNetwork Elimination::left() const {
  CostNetwork result;
  for (int v = 0; v < network_.num_variables(); ++v) result.add_variable(network_.num_labels(v));
  auto add = [&](const std::vector<int>& scope, const CostTable& table) {
    result.add_factor(scope, result.add_table(table.sizes, table.entries));
  };
  size_t stay = order_.variables.size();
  std::vector<int> factors = fixed_factors_;
  factors.insert(factors.end(), factors_at_.begin() + static_cast<std::ptrdiff_t>(first_factor_[stay]),
                 factors_at_.end());
  std::sort(factors.begin(), factors.end());
  for (int f : factors) {
    const CostNetwork::Factor& factor = network_.factors()[index(f)];
    add(factor.scope, network_.tables()[index(factor.table)]);
  }
  for (const Certificate::Bucket& bucket : certificate_.buckets) {
    int turn = first_turn(bucket.scope);
    if (turn == kNone || index(turn) == stay) add(bucket.scope, messages_.tables()[index(bucket.table)]);
  }
  add({}, {{}, {certificate_.bound}});
  return result;
}

Certificate Elimination::take_certificate() {
  certificate_.tables = messages_.take_tables();
  return certificate_;
}

}  // namespace tpc

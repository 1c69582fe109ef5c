#include "passes/solver/elimination_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace tpc {
namespace {

/// Sums are cut to this from above, which keeps them lower bounds, and refused from its negative on.
constexpr Cost kLargestSum = Cost{1} << 124;

bool in_range(int i, size_t size) { return i >= 0 && static_cast<size_t>(i) < size; }

/// Of an elimination: of everything, or of some variables.
class EliminationCheck {
 public:
  EliminationCheck(const std::vector<Certificate::Bucket>& buckets, const std::vector<CostTable>& tables,
                   const CostNetwork& network)
      : buckets_(buckets), tables_(tables), network_(network) {}

  std::optional<std::string> run() {
    if (auto wrong = check_tables()) return wrong;
    uses_.assign(network_.factors().size(), 0);
    taken_.assign(buckets_.size(), 0);
    for (size_t b = 0; b < buckets_.size(); ++b) {
      for (int f : buckets_[b].factors) {
        if (!in_range(f, uses_.size())) return fmt::format("bucket {}: no factor {}", b, f);
        ++uses_[static_cast<size_t>(f)];
      }
      for (int m : buckets_[b].messages) {
        if (!in_range(m, b)) return fmt::format("bucket {}: message {} is not of an earlier bucket", b, m);
        ++taken_[static_cast<size_t>(m)];
      }
      if (auto wrong = check_bucket(buckets_[b])) return fmt::format("bucket {}: {}", b, *wrong);
    }
    for (size_t f = 0; f < uses_.size(); ++f) {
      if (uses_[f] > 1) return fmt::format("factor {} is used {} times", f, uses_[f]);
    }
    for (size_t b = 0; b < taken_.size(); ++b) {
      if (taken_[b] > 1) return fmt::format("message {} is taken {} times", b, taken_[b]);
    }
    return std::nullopt;
  }

  /// After run: whether nothing is left, and the constants come to this.
  std::optional<std::string> check_bound(Cost expected) const {
    for (size_t f = 0; f < uses_.size(); ++f) {
      if (uses_[f] == 0) return fmt::format("factor {} is used 0 times", f);
    }
    Cost bound = 0;
    for (size_t b = 0; b < taken_.size(); ++b) {
      bool is_constant = buckets_[b].scope.empty() && taken_[b] == 0;
      if (taken_[b] == 0 && !is_constant) return fmt::format("message {} is taken 0 times", b);
      // The limit leaves room for one more summand.
      if (bound > kLargestSum || bound < -kLargestSum) return "the bound is out of range";
      bound += buckets_[b].constant + (is_constant ? message_of(b).entries[0] : 0);
    }
    if (bound != expected) return "the bound is not the sum of the constants";
    return std::nullopt;
  }

  /// After run: puts what is left in the network's place.
  std::optional<std::string> replace(CostNetwork& network) const {
    CostNetwork left;
    for (int v = 0; v < network_.num_variables(); ++v) left.add_variable(network_.num_labels(v));
    auto add = [&](const std::vector<int>& scope, const CostTable& table) {
      left.add_factor(scope, left.add_table(table.sizes, table.entries));
    };
    for (size_t f = 0; f < uses_.size(); ++f) {
      const CostNetwork::Factor& factor = network_.factors()[f];
      if (uses_[f] == 0) add(factor.scope, network_.tables()[static_cast<size_t>(factor.table)]);
    }
    Cost constant = 0;
    for (size_t b = 0; b < taken_.size(); ++b) {
      constant += buckets_[b].constant;
      if (constant < 0 || constant >= kInfeasible) return "the sum of the constants is out of range";
      if (taken_[b] == 1) continue;
      const std::vector<Cost>& entries = message_of(b).entries;
      if (buckets_[b].scope.size() > CostNetwork::kMaxScope) return fmt::format("message {} is no factor", b);
      if (*std::min_element(entries.begin(), entries.end()) < 0) return fmt::format("message {} is negative", b);
      add(buckets_[b].scope, message_of(b));
    }
    add({}, {{}, {constant}});
    network = std::move(left);
    return std::nullopt;
  }

 private:
  std::optional<std::string> check_tables() {
    for (size_t t = 0; t < tables_.size(); ++t) {
      const CostTable& table = tables_[t];
      Cost entries = 1;
      for (int size : table.sizes) {
        entries *= size;
        if (size < 1 || entries > Cost{1} << 62) return fmt::format("table {} has impossible sizes", t);
      }
      if (entries != static_cast<Cost>(table.entries.size())) return fmt::format("table {} has odd entries", t);
      for (Cost entry : table.entries) {
        if (entry <= -kInfeasible || entry > kInfeasible) return fmt::format("table {} has an entry out of range", t);
        nonnegative_ = nonnegative_ && entry >= 0;
      }
    }
    for (const Certificate::Bucket& bucket : buckets_) nonnegative_ = nonnegative_ && bucket.constant >= 0;
    return std::nullopt;
  }

  std::optional<std::string> check_bucket(const Certificate::Bucket& bucket) {
    if (bucket.variable != -1 && !in_range(bucket.variable, variables())) return "no such variable";
    if (!in_range(bucket.table, tables_.size())) return "no such table";
    if (bucket.constant <= -kInfeasible || bucket.constant >= kInfeasible) return "constant out of range";
    const CostTable& message = tables_[static_cast<size_t>(bucket.table)];
    if (message.sizes.size() != bucket.scope.size()) return "the table does not fit the scope";
    dims_.clear();
    if (bucket.variable != -1) dims_.push_back(bucket.variable);
    dims_.insert(dims_.end(), bucket.scope.begin(), bucket.scope.end());
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (!in_range(dims_[d], variables())) return "no such variable";
      auto earlier = dims_.begin() + static_cast<std::ptrdiff_t>(d);
      if (std::find(dims_.begin(), earlier, dims_[d]) != earlier) return "a variable twice";
    }
    for (size_t i = 0; i < bucket.scope.size(); ++i) {
      if (message.sizes[i] != network_.num_labels(bucket.scope[i])) return "the table does not fit the scope";
    }
    // All that the inequality depends on, but for the constant: buckets that agree in it are checked once.
    std::vector<int> shape{bucket.variable == -1 ? 0 : network_.num_labels(bucket.variable), bucket.table};
    terms_.clear();
    for (int f : bucket.factors) {
      const CostNetwork::Factor& factor = network_.factors()[static_cast<size_t>(f)];
      add_term(network_.tables()[static_cast<size_t>(factor.table)], factor.scope);
      shape.push_back(factor.table);
    }
    shape.push_back(-1);
    for (int m : bucket.messages) {
      const Certificate::Bucket& sender = buckets_[static_cast<size_t>(m)];
      add_term(tables_[static_cast<size_t>(sender.table)], sender.scope);
      shape.push_back(sender.table);
    }
    for (const Term& term : terms_) {
      for (int variable : *term.scope) {
        auto d = static_cast<size_t>(std::find(dims_.begin(), dims_.end(), variable) - dims_.begin());
        if (d == dims_.size() && network_.num_labels(variable) > 1) return "the scope leaves variables out";
        shape.push_back(static_cast<int>(d));
      }
    }
    auto [known, added] = verified_.try_emplace(std::move(shape), bucket.constant);
    if (!added && bucket.constant <= known->second) return std::nullopt;
    known->second = bucket.constant;
    add_term(message, bucket.scope);
    set_up_loops();
    if (!inequality_holds(0, 0, bucket.constant)) return "the message promises too much";
    return std::nullopt;
  }

  struct Term {
    const Cost* entry;  // of the current labels
    const std::vector<int>* sizes;
    const std::vector<int>* scope;
  };

  void add_term(const CostTable& table, const std::vector<int>& scope) {
    terms_.push_back({table.entries.data(), &table.sizes, &scope});
  }

  /// A loop over the labels of a variable of the bucket; the last one completes the message too.
  struct Loop {
    int size = 1;
    // With the number of entries from label to label.
    std::vector<std::pair<Term*, int64_t>> moved;            // terms that have this variable and some further in
    std::vector<std::pair<const Term*, int64_t>> completed;  // terms that have no variable further in
    int64_t message_step = 0;                                // of the last loop
  };

  void set_up_loops() {
    loops_.assign(dims_.size() + 1, {});  // the first is no loop, but completes the terms without variables
    for (size_t d = 0; d < dims_.size(); ++d) loops_[d + 1].size = network_.num_labels(dims_[d]);
    for (Term& term : terms_) {
      bool is_message = &term == &terms_.back();
      std::vector<int64_t> steps(loops_.size(), 0);
      size_t deepest = is_message ? loops_.size() - 1 : 0;
      int64_t step = 1;
      for (size_t i = term.scope->size(); i-- > 0;) {
        auto d = static_cast<size_t>(std::find(dims_.begin(), dims_.end(), (*term.scope)[i]) - dims_.begin());
        if (d == dims_.size()) continue;
        steps[d + 1] = step;
        deepest = std::max(deepest, d + 1);
        step *= (*term.sizes)[i];
      }
      for (size_t depth = 0; depth < deepest; ++depth) {
        if (steps[depth] != 0) loops_[depth].moved.emplace_back(&term, steps[depth]);
      }
      if (is_message) {
        loops_[deepest].message_step = steps[deepest];
      } else {
        loops_[deepest].completed.emplace_back(&term, steps[deepest]);
      }
    }
  }

  /// Whether sum(terms) >= message + constant for all labels of the variables from this loop inwards; `outer` is the
  /// sum of the terms completed before.
  bool inequality_holds(size_t depth, Cost outer, Cost constant) {
    const Loop& loop = loops_[depth];
    const bool innermost = depth + 1 == loops_.size();
    if (innermost && nonnegative_ && loop.completed.size() <= 2)
      return row_holds(loop, outer - constant, kInfeasible - constant);
    for (int label = 0; label < loop.size; ++label) {
      Cost sum = outer;
      bool forbidden = false;
      for (const auto& [term, step] : loop.completed) {
        Cost entry = term->entry[label * step];
        forbidden = forbidden || entry == kInfeasible;
        sum = std::min(sum + entry, kLargestSum);
        if (sum <= -kLargestSum) return false;
      }
      if (forbidden || (nonnegative_ && sum >= kInfeasible)) {
        // Whatever the inner labels are.
      } else if (!innermost) {
        if (!inequality_holds(depth + 1, sum, constant)) return false;
      } else {
        Cost message = terms_.back().entry[label * loop.message_step];
        if (message == kInfeasible || sum < message + constant) return false;
      }
      for (const auto& [term, step] : loop.moved) term->entry += step;
    }
    for (const auto& [term, step] : loop.moved) term->entry -= step * loop.size;
    return true;
  }

  /// The last loop, for the most common numbers of terms and where nothing is negative: infeasible is then a matter of
  /// size alone, and so few summands do not overflow. `outer` and `infeasible` are less the constant.
  bool row_holds(const Loop& loop, Cost outer, Cost infeasible) const {
    const auto& terms = loop.completed;
    if (terms.empty()) return sums_hold(loop, infeasible, [=](int64_t) { return outer; });
    const Cost* a = terms[0].first->entry;
    int64_t step_a = terms[0].second;
    if (terms.size() == 1) return sums_hold(loop, infeasible, [=](int64_t i) { return outer + a[i * step_a]; });
    const Cost* b = terms[1].first->entry;
    int64_t step_b = terms[1].second;
    return sums_hold(loop, infeasible, [=](int64_t i) { return outer + a[i * step_a] + b[i * step_b]; });
  }

  /// No branch that depends on the costs.
  template <typename SumOfLabel>
  bool sums_hold(const Loop& loop, Cost infeasible, SumOfLabel sum_of_label) const {
    const Cost* message = terms_.back().entry;
    bool hold = true;
    for (int64_t label = 0; label < loop.size; ++label) {
      Cost sum = sum_of_label(label);
      hold &= (sum >= infeasible) | (sum >= message[label * loop.message_step]);
    }
    return hold;
  }

  const CostTable& message_of(size_t bucket) const { return tables_[static_cast<size_t>(buckets_[bucket].table)]; }
  size_t variables() const { return static_cast<size_t>(network_.num_variables()); }

  const std::vector<Certificate::Bucket>& buckets_;
  const std::vector<CostTable>& tables_;
  const CostNetwork& network_;
  std::vector<int> uses_;   // per factor
  std::vector<int> taken_;  // per bucket
  bool nonnegative_ = true;
  std::vector<int> dims_;    // the variables of the bucket at hand: the eliminated one, then the message's
  std::vector<Term> terms_;  // its factors and messages, then its own message
  std::vector<Loop> loops_;
  std::map<std::vector<int>, Cost> verified_;
};

}  // namespace

std::optional<std::string> check_elimination(const std::vector<Certificate::Bucket>& buckets,
                                             const std::vector<CostTable>& tables, const CostNetwork& network,
                                             Cost bound) {
  EliminationCheck check(buckets, tables, network);
  if (auto wrong = check.run()) return wrong;
  return check.check_bound(bound);
}

std::optional<std::string> replace_factors(const std::vector<Certificate::Bucket>& buckets,
                                           const std::vector<CostTable>& tables, CostNetwork& network) {
  if (buckets.empty()) return std::nullopt;
  EliminationCheck check(buckets, tables, network);
  if (auto wrong = check.run()) return wrong;
  return check.replace(network);
}

}  // namespace tpc

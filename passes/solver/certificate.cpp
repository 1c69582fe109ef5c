#include "passes/solver/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tpc {
namespace {

/// Sums are cut to this from above, which keeps them lower bounds, and refused from its negative on.
constexpr Cost kLargestSum = Cost{1} << 124;

bool in_range(int i, size_t size) { return i >= 0 && static_cast<size_t>(i) < size; }

class CertificateCheck {
 public:
  CertificateCheck(const Certificate& certificate, const CostNetwork& network)
      : certificate_(certificate), network_(network) {}

  std::optional<std::string> run(std::span<const int> assignment) {
    if (auto wrong = check_tables()) return wrong;
    std::vector<int> uses(network_.factors().size(), 0);
    std::vector<int> taken(certificate_.buckets.size(), 0);
    for (size_t b = 0; b < certificate_.buckets.size(); ++b) {
      for (int f : certificate_.buckets[b].factors) {
        if (!in_range(f, uses.size())) return fmt::format("bucket {}: no factor {}", b, f);
        ++uses[static_cast<size_t>(f)];
      }
      for (int m : certificate_.buckets[b].messages) {
        if (!in_range(m, b)) return fmt::format("bucket {}: message {} is not of an earlier bucket", b, m);
        ++taken[static_cast<size_t>(m)];
      }
      if (auto wrong = check_bucket(certificate_.buckets[b])) return fmt::format("bucket {}: {}", b, *wrong);
    }
    for (size_t f = 0; f < uses.size(); ++f) {
      if (uses[f] != 1) return fmt::format("factor {} is used {} times", f, uses[f]);
    }
    return check_bound(taken, assignment);
  }

 private:
  std::optional<std::string> check_tables() {
    for (size_t t = 0; t < certificate_.tables.size(); ++t) {
      const CostTable& table = certificate_.tables[t];
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
    for (const Certificate::Bucket& bucket : certificate_.buckets) nonnegative_ = nonnegative_ && bucket.constant >= 0;
    return std::nullopt;
  }

  std::optional<std::string> check_bucket(const Certificate::Bucket& bucket) {
    if (bucket.variable != -1 && !in_range(bucket.variable, variables())) return "no such variable";
    if (!in_range(bucket.table, certificate_.tables.size())) return "no such table";
    if (bucket.constant <= -kInfeasible || bucket.constant >= kInfeasible) return "constant out of range";
    const CostTable& message = certificate_.tables[static_cast<size_t>(bucket.table)];
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
      const Certificate::Bucket& sender = certificate_.buckets[static_cast<size_t>(m)];
      add_term(certificate_.tables[static_cast<size_t>(sender.table)], sender.scope);
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
    for (int label = 0; label < loop.size; ++label) {
      Cost sum = outer;
      bool forbidden = false;
      for (const auto& [term, step] : loop.completed) {
        Cost entry = term->entry[label * step];
        forbidden = forbidden || entry == kInfeasible;
        sum = std::min(sum + entry, kLargestSum);
        if (sum <= -kLargestSum) return false;
      }
      if (forbidden) {
        // Whatever the inner labels are.
      } else if (!innermost) {
        if (!inequality_holds(depth + 1, sum, constant)) return false;
      } else if (!nonnegative_ || sum < kInfeasible) {
        Cost message = terms_.back().entry[label * loop.message_step];
        if (message == kInfeasible || sum < message + constant) return false;
      }
      for (const auto& [term, step] : loop.moved) term->entry += step;
    }
    for (const auto& [term, step] : loop.moved) term->entry -= step * loop.size;
    return true;
  }

  std::optional<std::string> check_bound(const std::vector<int>& taken, std::span<const int> assignment) const {
    Cost bound = 0;
    for (size_t b = 0; b < taken.size(); ++b) {
      const Certificate::Bucket& bucket = certificate_.buckets[b];
      bool is_constant = bucket.scope.empty() && taken[b] == 0;
      if (taken[b] != 1 && !is_constant) return fmt::format("message {} is taken {} times", b, taken[b]);
      Cost rest = is_constant ? certificate_.tables[static_cast<size_t>(bucket.table)].entries[0] : 0;
      // The limit leaves room for one more summand.
      if (bound > kLargestSum || bound < -kLargestSum) return "the bound is out of range";
      bound += bucket.constant + rest;
    }
    if (bound != certificate_.bound) return "the bound is not the sum of the constants";
    if (assignment.size() != variables()) return "the assignment does not have a label per variable";
    for (size_t v = 0; v < assignment.size(); ++v) {
      if (!in_range(assignment[v], static_cast<size_t>(network_.num_labels(static_cast<int>(v))))) {
        return fmt::format("variable {} has no label {}", v, assignment[v]);
      }
    }
    Cost cost = network_.cost(assignment);
    if (cost >= kInfeasible) return "the assignment is infeasible";
    if (cost == bound) return std::nullopt;
    return fmt::format("the assignment costs {}, the bound is {}", to_string(cost), to_string(bound));
  }

  size_t variables() const { return static_cast<size_t>(network_.num_variables()); }

  const Certificate& certificate_;
  const CostNetwork& network_;
  bool nonnegative_ = true;
  std::vector<int> dims_;    // the variables of the bucket at hand: the eliminated one, then the message's
  std::vector<Term> terms_;  // its factors and messages, then its own message
  std::vector<Loop> loops_;
  std::map<std::vector<int>, Cost> verified_;
};

}  // namespace

std::optional<std::string> refute(const Certificate& certificate, const CostNetwork& network,
                                  std::span<const int> assignment) {
  return CertificateCheck(certificate, network).run(assignment);
}

}  // namespace tpc

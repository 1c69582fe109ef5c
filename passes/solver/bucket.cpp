#include "passes/solver/bucket.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

/// The sum of all terms over the same variables, as rows over variable 0: a row per combination of the others' labels,
/// the deepest loop's variable fastest.
struct Group {
  uint32_t members = 0;  // bit i: variable i; bit 0 is left out
  std::vector<Cost> rows;
  const Cost* row = nullptr;  // of the current labels
};

/// A loop over the labels of one variable of the scope.
struct Loop {
  int64_t size = 0;
  std::vector<std::pair<Group*, int64_t>> moved;  // groups with this variable, and the way from label to label
  std::vector<Group*> completed;                  // groups whose deepest loop this is
  std::vector<Cost> sum;                          // per label of variable 0: all groups that this or an outer completes
};

void add_row(std::span<Cost> sum, const Cost* row) {
  for (size_t i = 0; i < sum.size(); ++i) {
    Cost total = sum[i] + row[i];
    sum[i] = total < kInfeasible ? total : kInfeasible;
  }
}

/// Adds a table of other order of dimensions to the rows; a step along row dimension i is steps[i] entries there.
void add_permuted(std::vector<Cost>& rows, const CostTable& table, std::span<const int64_t> sizes,
                  std::span<const int64_t> steps) {
  size_t last = sizes.size() - 1;
  std::vector<int64_t> labels(last, 0);
  const Cost* from = table.entries.data();
  for (size_t row = 0; row < rows.size(); row += static_cast<size_t>(sizes[last])) {
    for (int64_t i = 0; i < sizes[last]; ++i) {
      Cost& sum = rows[row + static_cast<size_t>(i)];
      sum = add_costs(sum, from[i * steps[last]]);
    }
    for (size_t d = last; d-- > 0;) {
      from += steps[d];
      if (++labels[d] < sizes[d]) break;
      from -= steps[d] * sizes[d];
      labels[d] = 0;
    }
  }
}

class BucketElimination {
 public:
  BucketElimination(std::span<const int> sizes, std::span<const BucketTerm> terms) : sizes_(sizes) {
    TPC_CHECK(sizes.size() <= 31, "a bucket of {} variables", sizes.size());
    for (const BucketTerm& term : terms) members_.push_back(members_of(term));
    for (uint32_t members : members_) {
      if (!find_group(members)) groups_.push_back({members, {}, nullptr});
    }
    order_loops();
    for (size_t i = 0; i < terms.size(); ++i) add_term(*find_group(members_[i]), terms[i]);
    for (Group& group : groups_) attach(group);
  }

  BucketResult run() {
    int64_t entries = 1;
    for (const Loop& loop : loops_) entries *= loop.size;
    result_.message.entries.reserve(static_cast<size_t>(entries));
    result_.best_label.reserve(static_cast<size_t>(entries));
    for (int variable : result_.scope) result_.message.sizes.push_back(size_of(variable));
    if (loops_.empty()) {
      put_minimum(outermost_.data(), {});
    } else {
      visit(0, outermost_);
    }
    std::vector<Cost>& message = result_.message.entries;
    result_.constant = *std::min_element(message.begin(), message.end());
    if (result_.constant < kInfeasible) {
      for (Cost& entry : message) {
        if (entry < kInfeasible) entry -= result_.constant;
      }
    }
    return std::move(result_);
  }

 private:
  int size_of(int variable) const { return sizes_[static_cast<size_t>(variable)]; }

  static uint32_t members_of(const BucketTerm& term) {
    uint32_t members = 0;
    for (int variable : term.variables) {
      if (variable > 0) members |= uint32_t{1} << variable;
    }
    return members;
  }

  Group* find_group(uint32_t members) {
    auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.members == members; });
    return found == groups_.end() ? nullptr : &*found;
  }

  static bool has(const Group& group, int variable) { return (group.members >> variable & 1) != 0; }

  /// The variable of fewest groups goes innermost: what the outer loops complete is added up once per outer step.
  void order_loops() {
    std::vector<int>& scope = result_.scope;
    scope.resize(sizes_.size() - 1);
    std::iota(scope.begin(), scope.end(), 1);
    std::vector<std::ptrdiff_t> groups_with(sizes_.size());
    for (int variable : scope) {
      groups_with[static_cast<size_t>(variable)] =
          std::count_if(groups_.begin(), groups_.end(), [&](const Group& group) { return has(group, variable); });
    }
    std::stable_sort(scope.begin(), scope.end(), [&](int a, int b) {
      return std::pair(-groups_with[static_cast<size_t>(a)], size_of(a)) <
             std::pair(-groups_with[static_cast<size_t>(b)], size_of(b));
    });
    for (int variable : scope) loops_.push_back({size_of(variable), {}, {}, std::vector<Cost>(num_labels())});
    outermost_.assign(num_labels(), 0);
  }

  size_t num_labels() const { return static_cast<size_t>(sizes_[0]); }

  void add_term(Group& group, const BucketTerm& term) {
    std::vector<int64_t> step_of(sizes_.size(), 0);
    int64_t step = 1;
    for (size_t d = term.variables.size(); d-- > 0;) {
      if (term.variables[d] != kSingleLabel) step_of[static_cast<size_t>(term.variables[d])] = step;
      step *= term.table->sizes[d];
    }
    std::vector<int64_t> sizes;
    std::vector<int64_t> steps;
    for (int variable : result_.scope) {
      if (!has(group, variable)) continue;
      sizes.push_back(size_of(variable));
      steps.push_back(step_of[static_cast<size_t>(variable)]);
    }
    sizes.push_back(sizes_[0]);
    steps.push_back(step_of[0]);
    if (group.rows.empty()) group.rows.assign(term.table->entries.size(), 0);
    add_permuted(group.rows, *term.table, sizes, steps);
  }

  void attach(Group& group) {
    if (group.members == 0) {
      add_row(outermost_, group.rows.data());
      return;
    }
    group.row = group.rows.data();
    int64_t step = sizes_[0];
    bool deepest = true;
    for (size_t level = loops_.size(); level-- > 0;) {
      if (!has(group, result_.scope[level])) continue;
      loops_[level].moved.emplace_back(&group, step);
      step *= loops_[level].size;
      if (std::exchange(deepest, false)) loops_[level].completed.push_back(&group);
    }
  }

  void visit(size_t level, const std::vector<Cost>& outer) {
    Loop& loop = loops_[level];
    bool innermost = level + 1 == loops_.size();
    for (int64_t label = 0; label < loop.size; ++label) {
      if (innermost && loop.completed.size() <= 2) {
        put_minimum(outer.data(), loop.completed);
      } else {
        loop.sum = outer;
        for (const Group* group : loop.completed) add_row(loop.sum, group->row);
        if (innermost) {
          put_minimum(loop.sum.data(), {});
        } else {
          visit(level + 1, loop.sum);
        }
      }
      for (auto& [group, step] : loop.moved) group->row += step;
    }
    for (auto& [group, step] : loop.moved) group->row -= step * loop.size;
  }

  /// The next entry of the message: least sum over the labels, with up to two rows yet to be added.
  void put_minimum(const Cost* sum, std::span<Group* const> rows) {
    switch (rows.size()) {
      case 0:
        return put_least([&](size_t i) { return sum[i]; });
      case 1:
        return put_least([sum, a = rows[0]->row](size_t i) { return sum[i] + a[i]; });
      case 2:
        return put_least([sum, a = rows[0]->row, b = rows[1]->row](size_t i) { return sum[i] + a[i] + b[i]; });
      default:
        TPC_UNREACHABLE("{} rows", rows.size());
    }
  }

  template <typename CostOfLabel>
  void put_least(CostOfLabel cost_of_label) {
    Cost least = kInfeasible;
    size_t best = 0;
    for (size_t label = 0; label < num_labels(); ++label) {
      Cost cost = cost_of_label(label);
      best = cost < least ? label : best;
      least = cost < least ? cost : least;
    }
    result_.message.entries.push_back(least);
    result_.best_label.push_back(static_cast<uint16_t>(best));
  }

  std::span<const int> sizes_;
  std::vector<uint32_t> members_;  // per term
  std::vector<Group> groups_;      // not resized once loops point into it
  std::vector<Loop> loops_;        // one per variable of the scope, outermost first
  std::vector<Cost> outermost_;    // what depends on no variable of the scope
  BucketResult result_;
};

}  // namespace

BucketResult eliminate_bucket(std::span<const int> sizes, std::span<const BucketTerm> terms) {
  return BucketElimination(sizes, terms).run();
}

}  // namespace tpc

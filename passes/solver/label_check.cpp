#include "passes/solver/label_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace tpc {
namespace {

/// Sums are cut to this from above, which keeps them lower bounds, and refused from its negative on.
constexpr Cost kLargestSum = Cost{1} << 124;

bool in_range(int i, size_t size) { return i >= 0 && static_cast<size_t>(i) < size; }

class LabelCheck {
 public:
  explicit LabelCheck(const CostNetwork& network) : network_(network) {
    kept_.resize(static_cast<size_t>(network.num_variables()));
    for (size_t v = 0; v < kept_.size(); ++v) {
      kept_[v].assign(static_cast<size_t>(network.num_labels(static_cast<int>(v))), true);
    }
  }

  std::optional<std::string> remove_unsupported(const std::vector<Certificate::Unsupported>& unsupported) {
    for (const auto& [removed, f] : unsupported) {
      if (auto wrong = check_label(removed)) return wrong;
      if (!in_range(f, network_.factors().size())) return fmt::format("no factor {}", f);
      const CostNetwork::Factor& factor = network_.factors()[static_cast<size_t>(f)];
      if (std::find(factor.scope.begin(), factor.scope.end(), removed.variable) == factor.scope.end()) {
        return fmt::format("factor {} is not about variable {}", f, removed.variable);
      }
      if (has_support(removed, factor)) {
        return fmt::format("label {} of variable {} has support in factor {}", removed.label, removed.variable, f);
      }
      kept_[static_cast<size_t>(removed.variable)][static_cast<size_t>(removed.label)] = false;
    }
    return std::nullopt;
  }

  std::optional<std::string> remove_costly(const Certificate::Reduction& reduction, Cost bound) {
    for (const std::vector<bool>& labels : kept_) sums_.emplace_back(labels.size(), 0);
    if (reduction.messages.size() != network_.factors().size()) return "not a list of messages per factor";
    Cost total = 0;
    for (size_t f = 0; f < network_.factors().size(); ++f) {
      if (auto wrong = add_messages(f, reduction.messages[f], total)) return wrong;
    }
    std::vector<Cost> least;
    for (const std::vector<Cost>& sums : sums_) {
      least.push_back(*std::min_element(sums.begin(), sums.end()));
      if (total <= -kLargestSum) return "a bound out of range";
      total = std::min(total + least.back(), kLargestSum);
    }
    for (const Certificate::Label& removed : reduction.costly) {
      if (auto wrong = check_label(removed)) return wrong;
      auto v = static_cast<size_t>(removed.variable);
      auto label = static_cast<size_t>(removed.label);
      if (total - least[v] + sums_[v][label] < bound) {
        return fmt::format("label {} of variable {} may cost less than the bound", label, v);
      }
      kept_[v][label] = false;
    }
    return std::nullopt;
  }

  /// Builds what is left.
  std::optional<std::string> reduce(CostNetwork& result) const {
    CostNetwork left;
    // Variables that keep the same labels share a number, so that equal factors are built once.
    std::map<std::vector<bool>, int> kinds;
    std::vector<int> kind_of;
    for (size_t v = 0; v < kept_.size(); ++v) {
      auto count = std::count(kept_[v].begin(), kept_[v].end(), true);
      if (count == 0) return fmt::format("variable {} has no label left", v);
      left.add_variable(static_cast<int>(count));
      kind_of.push_back(kinds.try_emplace(kept_[v], static_cast<int>(kinds.size())).first->second);
    }
    std::map<std::vector<int>, int> built;
    for (const CostNetwork::Factor& factor : network_.factors()) {
      std::vector<int> key{factor.table};
      for (int variable : factor.scope) key.push_back(kind_of[static_cast<size_t>(variable)]);
      auto [entry, added] = built.try_emplace(std::move(key), 0);
      if (added) entry->second = add_reduced_table(factor, left);
      left.add_factor(factor.scope, entry->second);
    }
    result = std::move(left);
    return std::nullopt;
  }

 private:
  const CostTable& table_of(const CostNetwork::Factor& factor) const {
    return network_.tables()[static_cast<size_t>(factor.table)];
  }

  std::optional<std::string> check_label(const Certificate::Label& removed) const {
    if (!in_range(removed.variable, kept_.size())) return fmt::format("no variable {}", removed.variable);
    if (!in_range(removed.label, kept_[static_cast<size_t>(removed.variable)].size())) {
      return fmt::format("variable {} has no label {}", removed.variable, removed.label);
    }
    return std::nullopt;
  }

  /// Calls visit(entry) for all entries all of whose labels are kept; `only`: those with this label.
  template <typename Visit>
  void visit_kept(const CostNetwork::Factor& factor, const Certificate::Label* only, Visit visit) const {
    std::vector<std::vector<size_t>> offsets;  // per variable of the entries that are visited
    size_t step = table_of(factor).entries.size();
    for (int variable : factor.scope) {
      const std::vector<bool>& kept = kept_[static_cast<size_t>(variable)];
      step /= kept.size();
      offsets.emplace_back();
      for (size_t label = 0; label < kept.size(); ++label) {
        bool chosen = only == nullptr || only->variable != variable || static_cast<size_t>(only->label) == label;
        if (kept[label] && chosen) offsets.back().push_back(label * step);
      }
    }
    visit_offsets(table_of(factor).entries.data(), offsets, 0, visit);
  }

  template <typename Visit>
  static void visit_offsets(const Cost* entries, const std::vector<std::vector<size_t>>& offsets, size_t depth,
                            Visit& visit) {
    if (depth == offsets.size()) {
      visit(*entries);
    } else {
      for (size_t offset : offsets[depth]) visit_offsets(entries + offset, offsets, depth + 1, visit);
    }
  }

  bool has_support(const Certificate::Label& label, const CostNetwork::Factor& factor) const {
    bool found = false;
    visit_kept(factor, &label, [&](Cost entry) { found = found || entry < kInfeasible; });
    return found;
  }

  int add_reduced_table(const CostNetwork::Factor& factor, CostNetwork& left) const {
    CostTable table;
    for (int variable : factor.scope) table.sizes.push_back(left.num_labels(variable));
    visit_kept(factor, nullptr, [&](Cost entry) { table.entries.push_back(entry); });
    return left.add_table(std::move(table.sizes), std::move(table.entries));
  }

  std::optional<std::string> add_messages(size_t f, const std::vector<Cost>& messages, Cost& total) {
    const CostNetwork::Factor& factor = network_.factors()[f];
    const CostTable& table = table_of(factor);
    size_t expected = 0;
    for (int size : table.sizes) expected += static_cast<size_t>(size);
    if (messages.size() != expected) return fmt::format("factor {}: not a message per label", f);
    for (Cost message : messages) {
      if (message < -kInfeasible || message > kInfeasible) return fmt::format("factor {}: message out of range", f);
    }
    if (factor.scope.empty()) {
      total = std::min(total + table.entries[0], kLargestSum);
      return std::nullopt;
    }
    const Cost* entries = table.entries.data();
    if (!entries_reach(entries, table.sizes, messages.data(), 0)) {
      return fmt::format("factor {}: the messages promise too much", f);
    }
    const Cost* message = messages.data();
    for (int variable : factor.scope) {
      for (Cost& sum : sums_[static_cast<size_t>(variable)]) {
        sum = std::min(sum + *message++, kLargestSum);
        if (sum <= -kLargestSum) return "a sum of messages out of range";
      }
    }
    return std::nullopt;
  }

  /// Whether each entry is at least `outer` and its messages, those from here on; moves `entries` past them.
  static bool entries_reach(const Cost*& entries, std::span<const int> sizes, const Cost* messages, Cost outer) {
    auto size = static_cast<size_t>(sizes[0]);
    bool reached = true;
    if (sizes.size() == 1) {
      for (size_t label = 0; label < size; ++label) {
        reached &= (entries[label] >= outer + messages[label]) | (entries[label] == kInfeasible);
      }
      entries += size;
    } else {
      for (size_t label = 0; label < size; ++label) {
        reached &= entries_reach(entries, sizes.subspan(1), messages + size, outer + messages[label]);
      }
    }
    return reached;
  }

  const CostNetwork& network_;
  std::vector<std::vector<bool>> kept_;
  std::vector<std::vector<Cost>> sums_;  // of the messages to each label
};

}  // namespace

std::optional<std::string> remove_unsupported(const std::vector<Certificate::Unsupported>& unsupported,
                                              CostNetwork& network) {
  if (unsupported.empty()) return std::nullopt;
  LabelCheck check(network);
  if (auto wrong = check.remove_unsupported(unsupported)) return wrong;
  return check.reduce(network);
}

std::optional<std::string> remove_costly(const Certificate::Reduction& reduction, Cost bound, CostNetwork& network) {
  if (reduction.costly.empty()) return std::nullopt;
  LabelCheck check(network);
  if (auto wrong = check.remove_costly(reduction, bound)) return wrong;
  return check.reduce(network);
}

}  // namespace tpc

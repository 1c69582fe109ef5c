#include "passes/solver/lp_format.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

namespace tpc {
namespace {

/// Readers limit the length of a line (255 characters for some): a sum is broken well before.
constexpr size_t kLineLength = 200;

/// A row or the objective: terms with signs.
class LinearSum {
 public:
  LinearSum() = default;
  explicit LinearSum(std::string_view term) { add(term); }
  void add(std::string_view term) {
    if (text_.size() - line_start_ + term.size() > kLineLength) {
      text_ += "\n ";
      line_start_ = text_.size();
    }
    text_ += ' ';
    text_ += term;
  }
  void add(Cost coefficient, std::string_view name) {
    if (coefficient != 0) add(fmt::format("+ {} {}", to_string(coefficient), name));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t line_start_ = 0;
};

std::string label_name(int variable, int label) { return fmt::format("x_{}_{}", variable, label); }

class IntegerProgram {
 public:
  explicit IntegerProgram(const CostNetwork& network) : network_(network) {}

  std::string run() {
    // A reader may refuse a name that stands twice in the objective: costs of the same variable are added up first.
    Cost constant = 0;
    std::vector<std::vector<Cost>> unary;
    unary.reserve(static_cast<size_t>(network_.num_variables()));
    for (int v = 0; v < network_.num_variables(); ++v) unary.emplace_back(network_.num_labels(v), Cost{0});
    for (const CostNetwork::Factor& factor : network_.factors()) {
      const std::vector<Cost>& entries = table_of(factor).entries;
      if (factor.scope.empty()) constant = add_costs(constant, entries[0]);
      if (factor.scope.size() != 1) continue;
      std::vector<Cost>& costs = unary[static_cast<size_t>(factor.scope[0])];
      for (size_t label = 0; label < costs.size(); ++label) costs[label] = add_costs(costs[label], entries[label]);
    }
    add_constant(constant);
    for (int v = 0; v < network_.num_variables(); ++v) add_variable(v, unary[static_cast<size_t>(v)]);
    for (size_t f = 0; f < network_.factors().size(); ++f) {
      const CostNetwork::Factor& factor = network_.factors()[f];
      if (factor.scope.size() >= 2) add_joint(f, factor.scope, table_of(factor));
    }
    return fmt::format("Minimize\n cost:{}\nSubject To\n{}Binary\n{}End\n", objective_.text(), rows_, binaries_);
  }

 private:
  const CostTable& table_of(const CostNetwork::Factor& factor) const {
    return network_.tables()[static_cast<size_t>(factor.table)];
  }

  void add_row(const LinearSum& sum, int value) {
    rows_ += fmt::format(" c{}:{} = {}\n", num_rows_++, sum.text(), value);
  }

  /// Written even if 0: an objective may not be empty.
  void add_constant(Cost constant) {
    bool feasible = constant < kInfeasible;
    objective_.add(fmt::format("+ {} one", to_string(feasible ? constant : 0)));
    add_row(LinearSum("one"), 1);
    if (!feasible) add_row(LinearSum("one"), 0);
  }

  void add_variable(int variable, const std::vector<Cost>& costs) {
    LinearSum sum;
    for (int label = 0; label < network_.num_labels(variable); ++label) {
      std::string name = label_name(variable, label);
      sum.add(1, name);
      binaries_ += fmt::format(" {}\n", name);
      Cost cost = costs[static_cast<size_t>(label)];
      if (cost < kInfeasible) {
        objective_.add(cost, name);
      } else {
        add_row(LinearSum(name), 0);
      }
    }
    add_row(sum, 1);
  }

  void add_joint(size_t factor, const std::vector<int>& scope, const CostTable& table) {
    // marginals[i][label]: the entries with this label of variable i, less its x.
    std::vector<std::vector<LinearSum>> marginals(scope.size());
    for (size_t i = 0; i < scope.size(); ++i) marginals[i].resize(static_cast<size_t>(table.sizes[i]));
    for (size_t entry = 0; entry < table.entries.size(); ++entry) {
      if (table.entries[entry] >= kInfeasible) continue;
      std::string name = fmt::format("y_{}_{}", factor, entry);
      objective_.add(table.entries[entry], name);
      size_t rest = entry;
      for (size_t i = scope.size(); i-- > 0;) {
        auto size = static_cast<size_t>(table.sizes[i]);
        marginals[i][rest % size].add(1, name);
        rest /= size;
      }
    }
    for (size_t i = 0; i < scope.size(); ++i) {
      for (int label = 0; label < table.sizes[i]; ++label) {
        LinearSum& row = marginals[i][static_cast<size_t>(label)];
        row.add(fmt::format("- {}", label_name(scope[i], label)));
        add_row(row, 0);
      }
    }
  }

  const CostNetwork& network_;
  LinearSum objective_;
  std::string rows_;
  std::string binaries_;
  int num_rows_ = 0;
};

}  // namespace

std::string lp_format(const CostNetwork& network) { return IntegerProgram(network).run(); }

}  // namespace tpc

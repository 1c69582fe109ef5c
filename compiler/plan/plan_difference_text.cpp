// A difference for people: tables of what differs, blocks that repeat told once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "compiler/core/check.h"
#include "compiler/plan/plan_difference.h"
#include "compiler/plan/proof_text.h"
#include "compiler/plan/repeated_blocks.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

std::string amount_text(AmountChange::Unit unit, double amount) {
  switch (unit) {
    case AmountChange::Unit::kBytes:
      return bytes_text(amount);
    case AmountChange::Unit::kCount:
      return std::abs(amount) < 1e6 ? grouped(static_cast<int64_t>(amount)) : count_text(amount);
    case AmountChange::Unit::kSeconds:
      return seconds_text(amount);
  }
  TPC_UNREACHABLE("unit {}", static_cast<int>(unit));
}

std::string change_text(AmountChange::Unit unit, double before, double after) {
  return (after < before ? "-" : "+") + amount_text(unit, std::abs(after - before));
}

std::string percent_text(double before, double after) {
  if (before == 0 || after == 0) return "";
  double change = 100 * (after / before - 1);
  if (std::abs(change) < 0.05) return "";
  return std::abs(change) < 1000 ? fmt::format("{:+.1f} %", change) : fmt::format("x {}", short_number(after / before));
}

std::string settings_text(const std::vector<TextChange>& settings) {
  if (settings.empty()) return "";
  TextTable table("lll");
  table.add_row({"asked", "A", "B"});
  for (const TextChange& change : settings) {
    auto side = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
    table.add_row({change.name, side(change.before), side(change.after)});
  }
  return "\n" + table.text();
}

std::string amounts_text(const std::vector<AmountChange>& amounts) {
  if (amounts.empty()) return "";
  TextTable table("llrrrr");
  table.add_row({"a step, on the fullest rank", "", "A", "B", "", ""});
  std::string group;
  for (const AmountChange& change : amounts) {
    table.add_row({change.group == group ? "" : change.group, change.name, amount_text(change.unit, change.before),
                   amount_text(change.unit, change.after), change_text(change.unit, change.before, change.after),
                   percent_text(change.before, change.after)});
    group = change.group;
  }
  return "\n" + table.text();
}

/// Rows of a table that belong to layers; those of blocks that are alike are told once.
class FoldedRows {
 public:
  /// The first cell is a tensor's name.
  void add(const std::string& layer, std::vector<std::string> cells) {
    std::string name = block_of(layer);
    auto [found, is_new] = index_.try_emplace(name, names_.size());
    if (is_new) {
      names_.push_back(name);
      is_layer_.push_back(name == layer);
      rows_.emplace_back();
    }
    cells[0] = relative_to_block(without_number(cells[0]), name);
    rows_[found->second].push_back(std::move(cells));
  }

  void add_to(TextTable& table) const {
    std::vector<std::string> contents;
    for (const auto& rows : rows_) {
      std::string content;
      for (const auto& cells : rows) content += fmt::format("{}\n", fmt::join(cells, "|"));
      contents.push_back(std::move(content));
    }
    for (const BlockRun& run : find_runs(names_, contents)) {
      bool is_single = run.count == 1 && is_layer_[run.first];
      if (!is_single) table.add_line("  " + run_name(names_, run));
      for (std::vector<std::string> cells : rows_[run.first]) {
        cells[0] = (is_single ? "  " : "    ") + cells[0];
        table.add_row(std::move(cells));
      }
    }
  }

 private:
  std::vector<std::string> names_;
  std::vector<bool> is_layer_;
  std::vector<std::vector<std::vector<std::string>>> rows_;
  std::map<std::string, size_t> index_;
};

std::string side_text(const std::optional<CollectiveSide>& side) {
  if (!side) return "-";
  return fmt::format("{} {} of {}  {}", op_name(side->kind), side->axis, side->group_size,
                     bytes_text(side->received_bytes));
}

std::string collectives_text(const PlanDifference& difference) {
  if (difference.collectives.empty()) return "";
  FoldedRows rows;
  int64_t removed = 0;
  int64_t added = 0;
  for (const CollectiveChange& change : difference.collectives) {
    removed += change.after ? 0 : 1;
    added += change.before ? 0 : 1;
    auto before = static_cast<double>(change.before ? change.before->received_bytes : 0);
    auto after = static_cast<double>(change.after ? change.after->received_bytes : 0);
    std::string bytes = before == after ? "" : change_text(AmountChange::Unit::kBytes, before, after);
    rows.add(change.layer, {change.tensor, std::string(to_string(change.phase)), side_text(change.before),
                            side_text(change.after), bytes});
  }
  auto all = static_cast<int64_t>(difference.collectives.size());
  TextTable table("llllr");
  table.add_row({"  tensor", "phase", "A", "B", ""});
  rows.add_to(table);
  return fmt::format("\nCollectives: {} only in A, {} only in B, {} of both changed, {} equal\n{}", grouped(removed),
                     grouped(added), grouped(all - removed - added), grouped(difference.equal_collectives),
                     table.text());
}

std::string tensors_text(const char* title, const std::vector<TensorChange>& tensors) {
  if (tensors.empty()) return "";
  FoldedRows rows;
  for (const TensorChange& change : tensors) {
    rows.add(change.layer, {change.tensor, std::string(to_string(change.role)), change.before, change.after});
  }
  TextTable table("llll");
  table.add_row({"  tensor", "role", "A", "B"});
  rows.add_to(table);
  return fmt::format("\n{}: {}\n{}", title, grouped(static_cast<int64_t>(tensors.size())), table.text());
}

/// Layers and blocks with how many tensors of each role only one plan has there.
std::string lone_text(const std::vector<LoneTensor>& tensors, bool is_before) {
  std::vector<std::string> names;
  std::map<std::string, std::map<TensorRole, int64_t>> counts;
  int64_t all = 0;
  for (const LoneTensor& lone : tensors) {
    if (lone.is_before != is_before) continue;
    std::string name = block_of(lone.layer);
    if (counts.count(name) == 0) names.push_back(name);
    ++counts[name][lone.role];
    ++all;
  }
  if (all == 0) return "";
  std::vector<std::string> contents;
  for (const std::string& name : names) {
    std::string content;
    for (const auto& [role, count] : counts[name]) {
      content += fmt::format("{}{} {}{}", content.empty() ? "" : ", ", count, to_string(role), count == 1 ? "" : "s");
    }
    contents.push_back(std::move(content));
  }
  TextTable table("ll");
  for (const BlockRun& run : find_runs(names, contents)) {
    table.add_row({run_name(names, run) + (run.count > 1 ? " each" : ""), contents[run.first]});
  }
  return fmt::format("\nTensors only in {}: {}\n{}", is_before ? "A" : "B", grouped(all), table.text(2));
}

}  // namespace

std::string difference_text(const PlanDifference& difference) {
  if (difference.empty()) return fmt::format("No difference: {}\n", difference.before);
  std::string text = fmt::format("A: {}\nB: {}\n", difference.before, difference.after);
  if (!difference.is_same_model) text += "Two models: what has the same name is compared.\n";
  if (!difference.details.empty()) {
    return text +
           fmt::format("Both receive and hold the same. They differ in {}.\n", fmt::join(difference.details, ", "));
  }
  text += settings_text(difference.settings) + amounts_text(difference.amounts);
  text += collectives_text(difference) + tensors_text("Parameters and inputs of another type", difference.types);
  text += tensors_text("Tensors that lie differently", difference.placements);
  text += tensors_text("Attributes", difference.attributes);
  return text + lone_text(difference.lone_tensors, true) + lone_text(difference.lone_tensors, false);
}

}  // namespace tpc

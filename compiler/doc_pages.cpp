#include "compiler/doc_pages.h"

#include <fmt/format.h>

#include <limits>

#include "compiler/ops/op_def.h"
#include "passes/registry.h"

namespace tpc {
namespace {

std::string operand_count(const OpDef& op) {
  if (op.min_operands == op.max_operands) return fmt::format("{}", op.min_operands);
  if (op.max_operands == std::numeric_limits<int>::max()) return fmt::format("{} or more", op.min_operands);
  return fmt::format("{} to {}", op.min_operands, op.max_operands);
}

std::string result_count(const OpDef& op) { return op.num_results < 0 ? "varies" : fmt::format("{}", op.num_results); }

std::string notes(const OpDef& op) {
  std::string text;
  auto add = [&](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (op.gradient != nullptr) add("has a gradient");
  if (op.heavy) add("its work is shared among ranks");
  for (size_t i = 0; i < op.inplace.size(); ++i) {
    if (op.inplace[i] >= 0) add(fmt::format("result {} may be written over operand {}", i, op.inplace[i]));
  }
  return text;
}

}  // namespace

std::string ops_page() {
  std::string text =
      "# Ops\n\nPrinted by `tpc ops` from the table in compiler/ops; change the op's row, not this page.\n\n";
  text += "| op | meaning | operands | results | notes |\n|---|---|---|---|---|\n";
  for (const OpDef* op : all_ops()) {
    std::string summary;
    for (char c : op->summary) summary += c == '|' ? std::string("\\|") : std::string(1, c);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", op->name, summary, operand_count(*op), result_count(*op),
                        notes(*op));
  }
  return text;
}

std::string passes_page() {
  std::string text =
      "# Passes\n\nPrinted by `tpc passes` from the table in passes/registry.cpp; change the pass's row, not this "
      "page.\n"
      "In the order in which they run. A stage says what holds of the graph (compiler/ir/graph.h); it is verified "
      "after "
      "every pass.\n\n";
  text += "| pass | what it does | needs | gives |\n|---|---|---|---|\n";
  for (const PassInfo& pass : all_passes()) {
    text +=
        fmt::format("| {} | {} | {} | {} |\n", pass.name, pass.summary, to_string(pass.needs), to_string(pass.gives));
  }
  text += fmt::format("| {} | {} | {} | plan |\n", kPlanMemoryName, kPlanMemorySummary, to_string(Stage::kScheduled));
  return text;
}

}  // namespace tpc

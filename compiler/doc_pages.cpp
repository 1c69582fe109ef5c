#include "compiler/doc_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <limits>
#include <vector>

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

/// "operands 2, 3", "result 1", "" for none: those with the role.
std::string with_role(FloatRole role, const char* what, int count, const std::function<FloatRole(size_t)>& role_of) {
  std::vector<int> found;
  for (int i = 0; i < count; ++i) {
    if (role_of(static_cast<size_t>(i)) == role) found.push_back(i);
  }
  return found.empty() ? "" : fmt::format("{}{} {}", what, found.size() == 1 ? "" : "s", fmt::join(found, ", "));
}

/// What bf16 compute leaves in f32.
std::string float_notes(const OpDef& op) {
  auto of_operand = [&](size_t i) { return op.floats.of_operand(i); };
  auto of_result = [&](size_t i) { return op.floats.of_result(i); };
  std::string operands = with_role(FloatRole::kFull, "operand", op.min_operands, of_operand);
  std::string results = with_role(FloatRole::kFull, "result", op.num_results, of_result);
  std::string sums = with_role(FloatRole::kSum, "result", op.num_results, of_result);
  std::string text = operands + (operands.empty() || results.empty() ? "" : ", ") + results;
  if (!text.empty()) text = "always f32: " + text;
  if (!sums.empty()) text += fmt::format("{}{} a sum, f32 with sums", text.empty() ? "" : "; ", sums);
  return text;
}

std::string notes(const OpDef& op) {
  std::string text;
  auto add = [&](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (op.gradient != nullptr) add("has a gradient");
  if (op.heavy) add("its work is shared among ranks");
  if (std::string floats = float_notes(op); !floats.empty()) add(floats);
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

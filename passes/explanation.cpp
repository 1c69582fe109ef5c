#include "passes/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "compiler/core/diagnostic.h"
#include "compiler/plan/collective_changes.h"
#include "compiler/plan/layer_role.h"
#include "compiler/plan/repeated_blocks.h"
#include "compiler/plan/text_table.h"
#include "passes/other_plans.h"

namespace tpc {
namespace {

size_t position(int index) { return static_cast<size_t>(index); }

/// The layer itself and its neighbours; each has three other ways, and each way is compiled.
constexpr size_t kMostLayersTried = 3;

class Explainer {
 public:
  Explainer(const Plan& plan, const ExplainedNode& node, Report report)
      : plan_(plan), words_(plan), made_by_(producers(plan)) {
    result_.node = node;
    result_.report = std::move(report);
    for (int step : node.steps) result_.steps.push_back(explained_step(step));
    for (size_t index : node.collectives) result_.collectives.push_back(explained_collective(index));
  }

  Explanation take() { return std::move(result_); }

  void add_alternatives(const Graph& graph, const CompileOptions& options) {
    const ExplainedNode& node = result_.node;
    try {
      if (node.kind == ExplainedNode::Kind::kLayer) {
        result_.alternatives = layer_alternatives(graph, options, plan_, node.name);
      } else if (!result_.steps.empty() && !result_.steps[0].makes.empty()) {
        result_.alternatives = tensor_alternatives(graph, options, plan_, result_.steps[0].makes[0].name);
      }
    } catch (const UserError& error) {
      // What was chosen and why collectives are there can be told all the same.
      result_.not_priced = error.diagnostics().front().message;
    }
    for (ExplainedCollective& collective : result_.collectives) {
      if (adds(collective.row.kind)) collective.without_sum = cheapest_without_sum(collective.row.tensor);
    }
  }

  void add_ways_around(const Graph& graph, const CompileOptions& options) {
    if (result_.collectives.empty()) return;
    OtherPlans others = other_plans(graph, options, layers_to_try());
    result_.impossible = std::move(others.impossible);
    for (const OtherPlan& other : others.plans) {
      result_.tried.push_back(other.change);
      std::map<int, CollectiveChange*> by_step;
      std::map<std::string_view, const CollectiveChange*> added;
      CollectiveChanges changes = collective_changes(plan_, result_.report, other.plan, other.report);
      for (CollectiveChange& change : changes.changes) {
        if (change.before) by_step[change.before->step] = &change;
        if (!change.before) added[without_number(change.tensor)] = &change;
      }
      for (ExplainedCollective& collective : result_.collectives) {
        auto found = by_step.find(collective.row.step);
        if (found == by_step.end()) continue;
        // In another phase it is not gone.
        auto elsewhere = added.find(without_number(found->second->tensor));
        if (!found->second->after && elsewhere != added.end()) found->second->after = elsewhere->second->after;
        if (!is_less(*found->second)) continue;
        collective.ways.push_back({other.change, becomes_text(*found->second), other.report.step.received_bytes,
                                   other.report.step.collectives, other.plan.arena_bytes});
      }
    }
    for (ExplainedCollective& collective : result_.collectives) {
      std::stable_sort(collective.ways.begin(), collective.ways.end(),
                       [](const WayAround& a, const WayAround& b) { return a.received < b.received; });
    }
  }

 private:
  const PlanTensor& tensor(int index) const { return plan_.tensors[position(index)]; }
  const PlanStep& step(int index) const { return plan_.steps[position(index)]; }

  ExplainedStep explained_step(int index) const {
    const PlanStep& found = step(index);
    ExplainedStep result{index, found.op, found.phase, found.layer, layer_role(plan_, found, words_), {}, {}, {}};
    for (int operand : found.operands) result.reads.push_back(placed(operand, found));
    for (int made : found.results) result.makes.push_back(placed(made, found));
    result.splits = step_splits(plan_, found, words_);
    return result;
  }

  PlacedTensor placed(int index, const PlanStep& at) const {
    return {tensor(index).name, words_.placement(tensor(index), at.origin)};
  }

  ExplainedCollective explained_collective(size_t index) const {
    const CollectiveRow& row = result_.report.collectives[index];
    const PlanStep& move = step(row.step);
    ExplainedCollective result{row, "", "", std::nullopt, {}};
    result.what = fmt::format("{} over {} of \"{}\": {} -> {}", op_name(row.kind), row.axis, row.tensor,
                              words_.placement(tensor(move.operands[0]), move.origin),
                              words_.placement(tensor(move.results[0]), move.origin));
    result.rule = adds(row.kind) ? maker_rule(row) : reader_rule(row);
    return result;
  }

  /// What its maker could be split by with and without a sum.
  std::string maker_rule(const CollectiveRow& row) const {
    int made_by = made_by_[position(step(row.step).operands[0])];
    for (; made_by >= 0 && is_move(step(made_by).op); made_by = made_by_[position(step(made_by).operands[0])]) {
      if (step(made_by).op == OpKind::kZeroPad || step(made_by).op == OpKind::kMask) {
        return "no maker left a sum: the way between the two placements goes through zeros around each block";
      }
    }
    if (made_by < 0) return "";
    const PlanStep& found = step(made_by);
    std::vector<std::string> with_part;
    std::vector<std::string> without;
    const char* part = "sum";
    for (const StepSplit& split : step_splits(plan_, found, words_)) {
      if (!split.refused.empty()) continue;
      if (split.is_maximum) part = "maximum";
      (split.leaves_part ? with_part : without).push_back(split.by);
    }
    std::string maker = fmt::format("its maker, {} of \"{}\",", op_name(found.op), found.layer);
    if (with_part.empty()) return maker + " works on sums that were there before";
    if (without.empty()) {
      return fmt::format("{} leaves a {} whatever it is split by: {}", maker, part, fmt::join(with_part, ", "));
    }
    return fmt::format("{} leaves a {} where it is split by {}, none by {}", maker, part, fmt::join(with_part, ", "),
                       fmt::join(without, ", "));
  }

  /// What the first that reads it could take it split by.
  std::string reader_rule(const CollectiveRow& row) const {
    std::vector<bool> carries(plan_.tensors.size(), false);
    carries[position(step(row.step).results[0])] = true;
    for (size_t i = position(row.step) + 1; i < plan_.steps.size(); ++i) {
      const PlanStep& found = plan_.steps[i];
      for (size_t operand = 0; operand < found.operands.size(); ++operand) {
        if (!carries[position(found.operands[operand])]) continue;
        if (is_move(found.op)) {
          carries[position(found.results[0])] = true;
          continue;
        }
        if (found.op == OpKind::kUpdate) return "its reader is the parameter, which rests so";
        if (found.op == OpKind::kOutput) return "its reader is an output, which is whole on every rank";
        std::vector<std::string> plain;
        std::vector<std::string> with_sum;
        for (const StepSplit& split : step_splits(plan_, found, words_)) {
          if (!split.refused.empty() || !split.operands[operand]) continue;
          (split.leaves_part ? with_sum : plain).push_back(split.by);
        }
        std::string reader = fmt::format("its first reader, {} of \"{}\",", op_name(found.op), found.layer);
        if (plain.empty() && with_sum.empty()) return reader + " must have it whole";
        std::string text = reader + " could take it split by ";
        if (!plain.empty()) text += fmt::format("{}", fmt::join(plain, ", "));
        if (!with_sum.empty()) {
          text += fmt::format("{}{}, which leaves a sum", plain.empty() ? "" : "; by ", fmt::join(with_sum, ", "));
        }
        return text;
      }
    }
    return "";
  }

  static bool adds(OpKind kind) { return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter; }

  std::optional<Alternative> cheapest_without_sum(const std::string& made) const {
    for (const NodeAlternatives& node : result_.alternatives) {
      if (node.result != made) continue;
      // By increasing price.
      auto found = std::find_if(node.ways.begin(), node.ways.end(),
                                [](const Alternative& way) { return way.price && !way.leaves_sum; });
      if (found != node.ways.end()) return *found;
    }
    return std::nullopt;
  }

  std::vector<std::string> layers_to_try() const {
    std::vector<std::string> layers = result_.node.layers;
    auto add = [&](const std::string& layer) {
      if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
    };
    for (const ExplainedCollective& collective : result_.collectives) {
      add(collective.row.layer);
      add(step(collective.row.step).layer);
    }
    if (layers.size() > kMostLayersTried) layers.resize(kMostLayersTried);
    return layers;
  }

  /// Gone, of another kind, or of fewer bytes.
  static bool is_less(const CollectiveChange& change) {
    return !change.after || change.after->kind != change.before->kind ||
           change.after->received_bytes < change.before->received_bytes;
  }

  static std::string becomes_text(const CollectiveChange& change) {
    if (!change.after) return "gone";
    return fmt::format("{} {}, {}", op_name(change.after->kind), change.after->axis,
                       bytes_text(change.after->received_bytes));
  }

  const Plan& plan_;
  ModelWords words_;
  std::vector<int> made_by_;  ///< see producers
  Explanation result_;
};

}  // namespace

Explanation explain(const Plan& plan, const ExplainedNode& node, Report report) {
  return Explainer(plan, node, std::move(report)).take();
}

Explanation explain(const Plan& plan, const ExplainedNode& node, Report report, const Graph& graph,
                    const CompileOptions& options) {
  Explainer explainer(plan, node, std::move(report));
  explainer.add_alternatives(graph, options);
  explainer.add_ways_around(graph, options);
  return explainer.take();
}

}  // namespace tpc

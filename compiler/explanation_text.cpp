#include "compiler/explanation_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "compiler/plan/model_words.h"
#include "compiler/plan/proof_text.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

/// Below this a collective's part of the step is no number to look at.
constexpr double kLeastPercent = 0.01;

std::string kind_text(const Plan& plan, const ExplainedNode& node) {
  if (node.kind == ExplainedNode::Kind::kLayer) return "";
  if (node.kind == ExplainedNode::Kind::kStep) return fmt::format(" (step {})", node.steps[0]);
  const PlanTensor& tensor = plan.tensors[static_cast<size_t>(node.tensor)];
  std::string role = tensor.role == TensorRole::kOther ? "" : fmt::format("{} ", to_string(tensor.role));
  return fmt::format(" ({}{})", role, to_string(tensor.type));
}

/// What the steps do and how their tensors lie. Of a layer, backward and optimizer are told without what they read.
std::string steps_text(const Explanation& explanation) {
  bool is_layer = explanation.node.kind == ExplainedNode::Kind::kLayer;
  TextTable table("lll");
  std::set<std::string> told;
  Phase phase = Phase::kForward;
  for (const ExplainedStep& step : explanation.steps) {
    bool is_forward = step.phase == Phase::kForward;
    if (step.makes.empty() && is_layer) continue;
    if (step.phase != phase) table.add_line(std::string(to_string(step.phase)));
    phase = step.phase;
    table.add_row({std::string(op_name(step.op)), step.role});
    auto tell = [&](const PlacedTensor& tensor, const char* what) {
      if (told.insert(tensor.name).second) table.add_row({"", what + tensor.name, tensor.placement});
    };
    for (const PlacedTensor& tensor : step.reads) {
      if (is_forward || !is_layer) tell(tensor, "reads ");
    }
    for (const PlacedTensor& tensor : step.makes) tell(tensor, "makes ");
  }
  return table.text(2);
}

/// The rule of a step, a line for each dimension that may be split.
std::string rule_text(const ExplainedStep& step) {
  TextTable table("llll");
  for (const StepSplit& split : step.splits) {
    std::vector<std::string> names;
    auto add = [&](const std::vector<PlacedTensor>& tensors, const std::vector<bool>& is_split) {
      for (size_t i = 0; i < tensors.size() && i < is_split.size(); ++i) {
        if (is_split[i]) names.push_back(tensors[i].name);
      }
    };
    add(step.reads, split.operands);
    add(step.makes, split.results);
    std::string note = !split.refused.empty() ? "not here: " + split.refused
                       : split.leaves_part    ? std::string(split.is_maximum ? "leaves a maximum" : "leaves a sum")
                                              : std::string();
    bool is_all = names.size() == step.reads.size() + step.makes.size();
    table.add_row({split.used_on.empty() ? "" : "* over " + split.used_on, split.by,
                   is_all ? "splits all that it reads and makes" : fmt::format("splits {}", fmt::join(names, ", ")),
                   note});
  }
  if (table.empty()) return "";
  return fmt::format("\nRule of {}: it may be split by (* is so in this plan)\n{}", op_name(step.op), table.text(2));
}

std::string rules_text(const Explanation& explanation) {
  std::string text;
  std::set<OpKind> told;
  for (const ExplainedStep& step : explanation.steps) {
    bool is_layer = explanation.node.kind == ExplainedNode::Kind::kLayer;
    if (is_layer && step.phase != Phase::kForward) continue;
    if (told.insert(step.op).second) text += rule_text(step);
  }
  return text;
}

std::string alternatives_text(const std::vector<NodeAlternatives>& nodes, bool is_time) {
  std::string text;
  for (const NodeAlternatives& node : nodes) {
    TextTable table("llrrr");
    table.add_row({"", "way", is_time ? "time" : "received", "", "memory"});
    std::optional<int64_t> least;
    for (const Alternative& way : node.ways) {
      if (!way.price) {
        table.add_row({way.is_chosen ? "*" : "", way.way, "impossible"});
        continue;
      }
      if (!least) least = way.price;
      int64_t more = *way.price - *least;
      table.add_row({way.is_chosen ? "*" : "", way.way, price_text(*way.price, is_time),
                     more == 0 ? "" : "+" + price_text(more, is_time), bytes_text(way.memory)});
    }
    text += fmt::format("\nWays of {}, each with the cheapest step that has it (* is this plan's):\n{}", node.op,
                        table.text(2));
  }
  return text;
}

std::string change_text(int64_t now, int64_t before) {
  if (now == before) return "the same";
  return (now < before ? "-" : "+") + bytes_text(std::abs(now - before));
}

std::string cost_text(const Explanation& explanation, const CollectiveRow& row) {
  const Report& report = explanation.report;
  double part = 100 * static_cast<double>(row.received_bytes_max) /
                static_cast<double>(std::max<int64_t>(report.step.received_bytes, 1));
  std::string share = part < kLeastPercent ? "next to nothing" : fmt::format("{:.2g} %", part);
  std::string text =
      fmt::format("{}, {}: {} of the {} that a rank receives in a step", bytes_text(row.received_bytes_max),
                  phi_text(row.volume_phi), share, bytes_text(report.step.received_bytes));
  if (!report.has_links) return text;
  return text + fmt::format("; {} of {}", seconds_text(row.seconds), seconds_text(report.step.seconds));
}

std::string ways_text(const Plan& plan, const Explanation& explanation, const ExplainedCollective& collective) {
  const std::string tried = fmt::format("{}", fmt::join(explanation.tried, ", "));
  if (collective.ways.empty()) {
    bool is_scalar = collective.row.elements == 1;
    std::string why = is_scalar ? "It is one number that all ranks need. " : "";
    if (explanation.tried.empty()) return "    " + why + "No other plan could be compiled to compare with.\n";
    return fmt::format("    {}Not avoided by any of the other plans compiled here: {}\n", why, tried);
  }
  TextTable table("llrrrr");
  table.add_row({"with", "it becomes", "a step receives", "", "collectives", "arena"});
  for (const WayAround& way : collective.ways) {
    table.add_row({way.change, way.becomes, bytes_text(way.received),
                   change_text(way.received, explanation.report.step.received_bytes), grouped(way.collectives),
                   bytes_text(way.arena_bytes)});
  }
  table.add_row({"this plan", "", bytes_text(explanation.report.step.received_bytes), "",
                 grouped(explanation.report.step.collectives), bytes_text(plan.arena_bytes)});
  return table.text(4);
}

std::string collectives_text(const Plan& plan, const Explanation& explanation, bool is_time) {
  if (explanation.collectives.empty()) {
    if (explanation.node.kind == ExplainedNode::Kind::kTensor) return "\nNo collective moves it.\n";
    return "\nNo collective: what it reads arrives as it is wanted, and what it makes is wanted so.\n";
  }
  std::string text =
      "\nCollectives of what it reads and makes, each with other plans, compiled, in which it is not so:\n";
  for (const ExplainedCollective& collective : explanation.collectives) {
    const CollectiveRow& row = collective.row;
    text += fmt::format("\n  {}, {}, step {}\n", collective.what, to_string(row.phase), row.step);
    text += fmt::format("    why: {}\n", row.why);
    if (!collective.rule.empty()) text += fmt::format("    rule: {}\n", collective.rule);
    text += fmt::format("    cost: {}\n", cost_text(explanation, row));
    if (const std::optional<Alternative>& way = collective.without_sum) {
      text += fmt::format("    the search's cheapest step without this sum {} {}: {}\n", is_time ? "takes" : "receives",
                          price_text(*way->price, is_time), way->way);
    }
    text += ways_text(plan, explanation, collective);
  }
  if (!explanation.impossible.empty()) {
    text += fmt::format("\nNot possible here: {}\n", fmt::join(explanation.impossible, ", "));
  }
  return text;
}

}  // namespace

std::string explanation_text(const Plan& plan, const CompileOptions& options, const Explanation& explanation) {
  const ExplainedNode& node = explanation.node;
  std::string text = fmt::format("\"{}\"{} in {} on {}, strategy {}\n", node.name, kind_text(plan, node),
                                 plan.model_name, user_mesh(plan.mesh), options.strategy);
  if (node.kind == ExplainedNode::Kind::kTensor) {
    ModelWords words(plan);
    const PlanTensor& tensor = plan.tensors[static_cast<size_t>(node.tensor)];
    text += fmt::format(
        "  lies {}\n",
        words.placement(tensor,
                        explanation.steps.empty() ? "" : plan.steps[static_cast<size_t>(node.steps[0])].origin));
  }
  text += steps_text(explanation) + rules_text(explanation);
  text += alternatives_text(explanation.alternatives, options.price.is_time());
  bool has_memory_wish = plan.options.count("memory_price") + plan.options.count("memory_limit") > 0;
  if (!explanation.alternatives.empty() && has_memory_wish) text += "  (without the plan's price of memory or limit)\n";
  if (!explanation.not_priced.empty()) text += fmt::format("\nOther ways are not priced: {}\n", explanation.not_priced);
  return text + collectives_text(plan, explanation, options.price.is_time());
}

}  // namespace tpc

#include "runtime/check/check_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/ops/region_index.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

constexpr size_t kMaxListed = 5;
enum Kind : size_t { kOutputs, kActivations, kGradients, kOptimizer, kWeights };

std::string plural(int64_t number, std::string_view one) {
  return fmt::format("{} {}{}", grouped(number), one, number == 1 ? "" : "s");
}

// Digits that tell neighbouring floats apart; of doubles fewer, for their last ones differ from machine to machine.
std::string value_text(double value, double epsilon) {
  return epsilon > 1e-10 ? fmt::format("{:.9g}", value) : fmt::format("{:.12g}", value);
}

std::string index_text(const PlanTensor& tensor, int64_t index) {
  if (tensor.type.shape.empty()) return "";
  return fmt::format("[{}]", fmt::join(unravel(index, tensor.type.shape), ", "));
}

std::string group_text(const Plan& plan, const PlanStep& collective, int64_t rank) {
  return fmt::format("over ranks {}", fmt::join(plan.mesh.group(collective.attributes.get_ints("axes"), rank), ", "));
}

// The plan step as rank `rank` makes it.
std::string step_text(const Plan& plan, int step, int64_t rank) {
  const PlanStep& s = plan.steps[static_cast<size_t>(step)];
  std::string group = is_collective(s.op) ? " " + group_text(plan, s, rank) : "";
  return fmt::format("\"{}\" ({}{}, {})", s.layer, op_name(s.op), group, to_string(s.phase));
}

// The ranks whose parts add up to what `rank` was compared with.
std::vector<int64_t> summed_ranks(const Plan& plan, const CheckedTensor& checked) {
  std::vector<int64_t> axes;
  const auto& placements = plan.tensors[static_cast<size_t>(checked.tensor)].sharding.placements;
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_partial()) axes.push_back(static_cast<int64_t>(axis));
  }
  return axes.empty() ? std::vector<int64_t>{} : plan.mesh.group(axes, checked.rank);
}

std::string difference_text(const Plan& plan, const CheckedTensor& checked, double epsilon) {
  const PlanTensor& tensor = plan.tensors[static_cast<size_t>(checked.tensor)];
  std::vector<int64_t> summed = summed_ranks(plan, checked);
  std::string ranks = summed.empty() ? fmt::format("on rank {}", checked.rank)
                                     : fmt::format("summed over ranks {}", fmt::join(summed, ", "));
  std::string when = checked.moment == Moment::kStart ? " at the start"
                     : checked.moment == Moment::kEnd ? " after the step"
                                                      : "";
  std::string of_ranks =
      summed.empty() ? fmt::format(" on {} of {}", checked.num_differing_ranks, plural(plan.mesh.world_size(), "rank"))
                     : "";
  return fmt::format("\"{}\"{} is {} {}{}, the model's {} (tolerance {:.2g}); {} of {} differ{}", tensor.name,
                     index_text(tensor, checked.index), value_text(checked.found, epsilon), ranks, when,
                     value_text(checked.wanted, epsilon), checked.tolerance, grouped(checked.num_differing),
                     plural(checked.num_elements, "element"), of_ranks);
}

std::string replicas_text(const Plan& plan, const CheckedTensor& checked, double epsilon) {
  const PlanTensor& tensor = plan.tensors[static_cast<size_t>(checked.tensor)];
  const UnequalReplicas& unequal = *checked.unequal;
  return fmt::format("\"{}\"{} is {} on rank {} and {} on rank {}, which must hold the same bits", tensor.name,
                     index_text(tensor, unequal.index), value_text(unequal.value, epsilon), unequal.rank,
                     value_text(unequal.other_value, epsilon), unequal.other);
}

SourceLoc place(const std::string& file, const CheckedTensor& checked) {
  if (checked.step >= 0) return {file, fmt::format("/steps/{}", checked.step)};
  return {file, fmt::format("/tensors/{}", checked.tensor)};
}

std::string name_list(const std::vector<std::string>& names) {
  size_t shown = std::min(names.size(), kMaxListed);
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += fmt::format("{}\"{}\"", i > 0 ? ", " : "", names[i]);
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

// A line each about tensors that only one of the plans has, where there are any.
std::vector<std::string> unmatched_tensors(const ComparedPlans& plans) {
  std::vector<std::string> added, missing;
  std::vector<bool> is_found(plans.one_rank.tensors.size());
  for (size_t t = 0; t < plans.match.size(); ++t) {
    if (plans.match[t] < 0) {
      added.push_back(plans.plan.tensors[t].name);
    } else {
      is_found[static_cast<size_t>(plans.match[t])] = true;
    }
  }
  for (size_t t = 0; t < is_found.size(); ++t) {
    if (!is_found[t]) missing.push_back(plans.one_rank.tensors[t].name);
  }
  auto line = [](const std::vector<std::string>& names, std::string_view whose) {
    return fmt::format("not compared: {} that only {} has: {}", plural(static_cast<int64_t>(names.size()), "tensor"),
                       whose, name_list(names));
  };
  std::vector<std::string> lines;
  if (!added.empty()) lines.push_back(line(added, "the plan"));
  if (!missing.empty()) lines.push_back(line(missing, "the model"));
  return lines;
}

std::vector<size_t> kinds_of_tensors(const Plan& one_rank) {
  std::vector<size_t> kinds(one_rank.tensors.size(), kActivations);
  for (size_t t = 0; t < kinds.size(); ++t) {
    if (one_rank.tensors[t].role == TensorRole::kParameter) kinds[t] = kWeights;
    if (one_rank.tensors[t].role == TensorRole::kState) kinds[t] = kOptimizer;
  }
  for (const PlanStep& step : one_rank.steps) {
    for (int result : step.results) {
      kinds[static_cast<size_t>(result)] = step.phase == Phase::kForward    ? kActivations
                                           : step.phase == Phase::kBackward ? kGradients
                                                                            : kOptimizer;
    }
    // The new value is of the kind of the old one.
    if (step.op == OpKind::kUpdate) {
      kinds[static_cast<size_t>(step.operands[1])] = kinds[static_cast<size_t>(step.operands[0])];
    }
  }
  for (const auto& [name, tensor] : one_rank.outputs) kinds[static_cast<size_t>(tensor)] = kOutputs;
  return kinds;
}

const char* element_types(const Plan& plan, double epsilon) {
  if (epsilon < 1e-10) return "double";
  bool any_bf16 = std::any_of(plan.tensors.begin(), plan.tensors.end(),
                              [](const PlanTensor& tensor) { return tensor.type.dtype == DType::kBF16; });
  return any_bf16 ? "f32 and bf16" : "f32";
}

}  // namespace

CheckSummary::CheckSummary(const ComparedPlans& plans, double epsilon)
    : plans_(plans), epsilon_(epsilon), kinds_(kinds_of_tensors(plans.one_rank)) {
  rows_[kOutputs].kind = "outputs";
  rows_[kActivations].kind = "activations";
  rows_[kGradients].kind = "gradients";
  rows_[kOptimizer].kind = "optimizer";
  rows_[kWeights].kind = "weights";
}

size_t CheckSummary::kind_of(const CheckedTensor& checked) const {
  return kinds_[static_cast<size_t>(plans_.match[static_cast<size_t>(checked.tensor)])];
}

void CheckSummary::add_step(const std::vector<CheckedTensor>& results) {
  ++num_steps_;
  std::set<int> counted;
  for (const CheckedTensor& checked : results) {
    if (checked.num_elements == 0) continue;
    Row& row = rows_[kind_of(checked)];
    if (num_steps_ == 1 && counted.insert(checked.tensor).second) ++row.num_tensors;
    row.num_elements += checked.num_elements;
    if (checked.largest <= row.largest && !row.tensor.empty()) continue;
    row.largest = checked.largest;
    row.tensor = plans_.plan.tensors[static_cast<size_t>(checked.tensor)].name;
  }
}

std::string CheckSummary::text() const {
  TextTable table("lrrrl");
  table.add_row({"", "tensors", "elements", "largest difference", ""});
  int64_t num_tensors = 0;
  for (const Row& row : rows_) {
    num_tensors += row.num_tensors;
    if (row.num_tensors == 0) continue;
    std::string largest = row.largest == 0 ? "none" : fmt::format("{:.2g} of the tolerance", row.largest);
    table.add_row({row.kind, grouped(row.num_tensors), grouped(row.num_elements), largest,
                   row.largest == 0 ? "" : fmt::format("\"{}\"", row.tensor)});
  }
  std::string text = table.text();

  for (const std::string& line : unmatched_tensors(plans_)) text += line + "\n";
  text +=
      fmt::format("agrees: in {} {} of {} on {} {} the model's on one rank, in {}\n", plural(num_steps_, "step"),
                  plural(num_tensors, "tensor"), plans_.plan.model_name, plural(plans_.plan.mesh.world_size(), "rank"),
                  num_tensors == 1 ? "is" : "are", element_types(plans_.plan, epsilon_));
  return text;
}

int feeding_collective(const Plan& plan, int step) {
  const std::vector<int> made_by = producers(plan);
  std::set<int> level = {step}, seen = {step};
  while (!level.empty()) {
    std::set<int> next;
    for (int reader : level) {
      for (int operand : plan.steps[static_cast<size_t>(reader)].operands) {
        int maker = made_by[static_cast<size_t>(operand)];
        if (maker >= 0 && seen.insert(maker).second) next.insert(maker);
      }
    }
    auto found = std::find_if(next.rbegin(), next.rend(),
                              [&](int maker) { return is_collective(plan.steps[static_cast<size_t>(maker)].op); });
    if (found != next.rend()) return *found;
    level = std::move(next);
  }
  return -1;
}

Diagnostic difference_report(const ComparedPlans& plans, const std::vector<CheckedTensor>& results, uint64_t step,
                             double epsilon, const std::string& file) {
  const Plan& plan = plans.plan;
  std::vector<const CheckedTensor*> bad;
  for (const CheckedTensor& checked : results) {
    if (!checked.is_good()) bad.push_back(&checked);
  }
  auto rank_of = [](const CheckedTensor& c) { return c.num_differing > 0 ? c.rank : c.unequal->other; };
  auto text_of = [&](const CheckedTensor& c) {
    std::string where = c.step >= 0 ? step_text(plan, c.step, rank_of(c)) + ": " : "";
    return where + (c.num_differing > 0 ? difference_text(plan, c, epsilon) : replicas_text(plan, c, epsilon));
  };

  const CheckedTensor& first = *bad.front();
  Diagnostic report;
  report.loc = place(file, first);
  report.message = fmt::format("the run is not the model's in training step {}: {}", step, text_of(first));
  if (first.num_differing > 0 && first.unequal) report.notes.push_back({{}, replicas_text(plan, first, epsilon)});
  if (first.moment == Moment::kEnd && first.step < 0) {
    report.notes.push_back({{}, "no step of the plan gives it a new value"});
  }
  int collective = first.step >= 0 ? feeding_collective(plan, first.step) : -1;
  if (collective >= 0) {
    const PlanStep& s = plan.steps[static_cast<size_t>(collective)];
    report.notes.push_back(
        {{file, fmt::format("/steps/{}", collective)},
         fmt::format("the last collective that feeds this step, and agrees: {} of \"{}\" {}", op_name(s.op),
                     plan.tensors[static_cast<size_t>(s.results[0])].name, group_text(plan, s, rank_of(first)))});
  } else if (first.step >= 0) {
    report.notes.push_back({{}, "no collective feeds this step; all before it agrees"});
  }
  for (size_t i = 1; i < std::min(bad.size(), 1 + kMaxListed); ++i) {
    report.notes.push_back({place(file, *bad[i]), text_of(*bad[i])});
  }
  if (bad.size() > 1 + kMaxListed) {
    report.notes.push_back({{}, fmt::format("{} tensors differ in all", grouped(static_cast<int64_t>(bad.size())))});
  }
  for (std::string& line : unmatched_tensors(plans)) report.notes.push_back({{}, std::move(line)});
  return report;
}

}  // namespace tpc

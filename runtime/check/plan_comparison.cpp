#include "runtime/check/plan_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/ops/region_index.h"

namespace tpc {
namespace {

// Row-major index in the whole tensor of element `local` of a part of it.
int64_t whole_index(const Region& region, const Shape& shape, int64_t local) {
  std::vector<int64_t> index = unravel(local, region.extents());
  for (size_t d = 0; d < index.size(); ++d) index[d] += region.dims[d].begin;
  return local_offset(whole_region(shape), index);
}

// The values of tensors are compared; which of them an output is, the plans must agree upon.
void require_outputs(const Plan& plan, const Plan& one_rank, const std::vector<int>& match, const std::string& file) {
  auto require = [&](const std::string& pointer, const std::string& output, int tensor) {
    auto wanted = one_rank.outputs.find(output);
    if (wanted != one_rank.outputs.end() && match[static_cast<size_t>(tensor)] == wanted->second) return;
    std::string of_model =
        wanted == one_rank.outputs.end()
            ? "the model has no such output"
            : fmt::format("the model's is \"{}\"", one_rank.tensors[static_cast<size_t>(wanted->second)].name);
    throw UserError(SourceLoc{file, pointer}, fmt::format("output \"{}\" is \"{}\"; {}", output,
                                                          plan.tensors[static_cast<size_t>(tensor)].name, of_model));
  };
  for (const auto& [output, tensor] : plan.outputs) require("/outputs/" + output, output, tensor);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.op != OpKind::kOutput) continue;
    require(fmt::format("/steps/{}", i), step.attributes.get_string("name"), step.operands[0]);
  }
  for (const auto& [output, tensor] : one_rank.outputs) {
    if (plan.outputs.contains(output)) continue;
    throw UserError(SourceLoc{file, "/outputs"}, fmt::format("the plan has no output \"{}\" of its model", output));
  }
}

}  // namespace

std::vector<int> match_tensors(const Plan& plan, const Plan& one_rank, const std::string& file) {
  std::map<std::string, int> by_name;
  for (size_t t = 0; t < one_rank.tensors.size(); ++t) by_name[one_rank.tensors[t].name] = static_cast<int>(t);
  std::vector<int> match;
  std::vector<bool> is_found(one_rank.tensors.size());
  for (const PlanTensor& tensor : plan.tensors) {
    auto found = by_name.find(tensor.name.substr(0, tensor.name.find('@')));
    match.push_back(found == by_name.end() ? -1 : found->second);
    if (match.back() < 0) continue;
    const PlanTensor& wanted = one_rank.tensors[static_cast<size_t>(match.back())];
    bool is_leaf = persists(tensor.role);
    if (tensor.type != wanted.type || (is_leaf && tensor.role != wanted.role)) {
      throw UserError(SourceLoc{file, fmt::format("/tensors/{}", match.size() - 1)},
                      fmt::format("\"{}\" is {} ({}), the model's is {} ({})", tensor.name, to_string(tensor.type),
                                  to_string(tensor.role), to_string(wanted.type), to_string(wanted.role)));
    }
    if (is_leaf) is_found[static_cast<size_t>(match.back())] = true;
  }
  for (size_t t = 0; t < one_rank.tensors.size(); ++t) {
    const PlanTensor& tensor = one_rank.tensors[t];
    if (!persists(tensor.role) || is_found[t]) continue;
    throw UserError(SourceLoc{file, ""},
                    fmt::format("the plan has no {} \"{}\" of its model", to_string(tensor.role), tensor.name));
  }
  require_outputs(plan, one_rank, match, file);
  return match;
}

PlanComparison::PlanComparison(ObservedRun& run, const ModelStep& model, const std::vector<int>& match)
    : run_(run), model_(model), match_(match), plan_(run.plan()), updated_by_(plan_.tensors.size(), -1) {
  for (const PlanTensor& tensor : plan_.tensors) {
    std::vector<int64_t>& replicate = replicate_axes_.emplace_back();
    std::vector<int64_t>& partial = partial_axes_.emplace_back();
    for (size_t axis = 0; axis < plan_.mesh.num_axes(); ++axis) {
      const Placement& placement = tensor.sharding.placements[axis];
      if (placement.is_replicate()) replicate.push_back(static_cast<int64_t>(axis));
      if (placement.is_partial()) partial.push_back(static_cast<int64_t>(axis));
    }
  }
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const PlanStep& step = plan_.steps[i];
    if (step.op == OpKind::kUpdate) updated_by_[static_cast<size_t>(step.operands[0])] = static_cast<int>(i);
  }
  count_terms();
  for (auto& of_moment : findings_) {
    of_moment.assign(static_cast<size_t>(plan_.mesh.world_size()), std::vector<Finding>(plan_.tensors.size()));
  }
}

// A partial sum keeps its roundings, since it is not set to the model's value: what is made of it has them, too.
void PlanComparison::count_terms() {
  for (int match : match_) num_terms_.push_back(match < 0 ? 1 : model_.num_terms(match));
  has_rounded_parts_.assign(match_.size(), false);
  for (const PlanStep& step : plan_.steps) {
    for (int operand : step.operands) {
      if (!plan_.tensors[static_cast<size_t>(operand)].sharding.has_partial()) continue;
      const bool is_bf16 = plan_.tensors[static_cast<size_t>(operand)].type.dtype == DType::kBF16;
      for (int result : step.results) {
        auto r = static_cast<size_t>(result);
        num_terms_[r] = std::max(num_terms_[r], num_terms_[static_cast<size_t>(operand)]);
        has_rounded_parts_[r] = has_rounded_parts_[r] || is_bf16 || has_rounded_parts_[static_cast<size_t>(operand)];
      }
    }
  }
}

void PlanComparison::compare_start() {
  compare_persistent(Moment::kStart);
  has_start_ = true;
}

void PlanComparison::compare_persistent(Moment moment) {
  for (int t = 0; t < static_cast<int>(plan_.tensors.size()); ++t) {
    int wanted = match_[static_cast<size_t>(t)];
    if (!is_learned(plan_.tensors[static_cast<size_t>(t)]) || wanted < 0) continue;
    Values value = model_.at_rest(wanted);
    for (int64_t rank = 0; rank < plan_.mesh.world_size(); ++rank) {
      Finding& finding = findings(moment)[static_cast<size_t>(rank)][static_cast<size_t>(t)];
      finding.comparison =
          compare_part(run_.part(rank, t), value, plan_.tensors[static_cast<size_t>(t)].type.shape, /*tolerance=*/0);
    }
  }
}

void PlanComparison::run(uint64_t step, const Batch& batch, const StepObserver& progress) {
  if (step > 0) has_start_ = false;
  for (auto& of_rank : findings(Moment::kMade)) std::fill(of_rank.begin(), of_rank.end(), Finding{});
  gatherings_.clear();
  for (int t = 0; t < static_cast<int>(plan_.tensors.size()); ++t) {
    int wanted = match_[static_cast<size_t>(t)];
    const PlanTensor& tensor = plan_.tensors[static_cast<size_t>(t)];
    if (!is_learned(tensor) || wanted < 0) continue;
    for (int64_t rank = 0; rank < plan_.mesh.world_size(); ++rank) {
      load_part(model_.value(wanted), tensor.type.shape, run_.part(rank, t));
    }
  }
  run_.run_step(batch, [&](int64_t rank, int index) {
    after_step(rank, index);
    progress(rank, index);
  });
  compare_persistent(Moment::kEnd);
}

void PlanComparison::after_step(int64_t rank, int step) {
  for (int tensor : plan_.steps[static_cast<size_t>(step)].results) compare_made(rank, step, tensor);
}

void PlanComparison::compare_made(int64_t rank, int step, int tensor) {
  auto t = static_cast<size_t>(tensor);
  RankPart part = run_.part(rank, tensor);
  if (plan_.mesh.group_size(replicate_axes_[t]) > 1) gather(/*are_replicas=*/true, rank, tensor, part);
  if (!partial_axes_[t].empty()) gather(/*are_replicas=*/false, rank, tensor, part);
  if (match_[t] < 0 || plan_.tensors[t].sharding.has_partial()) return;
  const Values& wanted = model_.value(match_[t]);
  Finding& finding = findings(Moment::kMade)[static_cast<size_t>(rank)][t];
  finding.tolerance = tolerance(rank, step, tensor);
  finding.comparison = compare_part(part, wanted, plan_.tensors[t].type.shape, finding.tolerance);
  load_part(wanted, plan_.tensors[t].type.shape, part);
}

double PlanComparison::tolerance(int64_t rank, int step, int tensor) const {
  auto t = static_cast<size_t>(tensor);
  const PlanStep& s = plan_.steps[static_cast<size_t>(step)];
  if (!is_move(s.op)) return model_.tolerance(match_[t], {num_terms_[t], 0, has_rounded_parts_[t]});
  auto operand = static_cast<size_t>(s.operands[0]);
  if (!plan_.tensors[operand].sharding.has_partial() && match_[operand] >= 0) return 0;
  double scale = findings_[static_cast<size_t>(Moment::kMade)][static_cast<size_t>(rank)][operand].scale;
  return model_.tolerance(match_[t], {num_terms_[t], scale, has_rounded_parts_[t]});
}

// The last rank of a group compares for all. What it notes is read by the others after their next meeting at the
// earliest: a sum becomes whole in a collective of its whole group.
void PlanComparison::gather(bool are_replicas, int64_t rank, int tensor, const RankPart& part) {
  const auto& axes = are_replicas ? replicate_axes_ : partial_axes_;
  std::vector<int64_t> group = plan_.mesh.group(axes[static_cast<size_t>(tensor)], rank);
  auto index = static_cast<size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
  Values own = copy_of(part.elements);
  std::vector<Values> all;
  {
    std::lock_guard lock(mutex_);
    auto place = gatherings_.try_emplace({tensor, group[0], are_replicas}).first;
    Gathering& gathering = place->second;
    gathering.parts.resize(group.size());
    gathering.parts[index] = std::move(own);
    if (++gathering.num_present < group.size()) return;
    all = std::move(gathering.parts);
    gatherings_.erase(place);
  }
  if (are_replicas) {
    compare_replicas(tensor, group, part.region, all);
  } else {
    compare_sum(tensor, group, part.region, all);
  }
}

void PlanComparison::compare_replicas(int tensor, const std::vector<int64_t>& group, const Region& region,
                                      const std::vector<Values>& parts) {
  auto t = static_cast<size_t>(tensor);
  for (size_t i = 1; i < group.size(); ++i) {
    int64_t at = first_unequal(parts[0], parts[i]);
    if (at < 0) continue;
    findings(Moment::kMade)[static_cast<size_t>(group[i])][t].unequal =
        UnequalReplicas{group[0], group[i], whole_index(region, plan_.tensors[t].type.shape, at), element(parts[0], at),
                        element(parts[i], at)};
  }
}

void PlanComparison::compare_sum(int tensor, const std::vector<int64_t>& group, const Region& region,
                                 const std::vector<Values>& parts) {
  auto t = static_cast<size_t>(tensor);
  if (match_[t] < 0) return;
  ReduceOp op = plan_.tensors[t].sharding.has_maximum() ? ReduceOp::kMax : ReduceOp::kSum;
  double scale = 0;
  std::vector<double> sum = combine_parts(parts, op, scale);
  for (int64_t rank : group) findings(Moment::kMade)[static_cast<size_t>(rank)][t].scale = scale;
  Finding& finding = findings(Moment::kMade)[static_cast<size_t>(group[0])][t];
  finding.tolerance = model_.tolerance(match_[t], {num_terms_[t], scale, has_rounded_parts_[t]});
  finding.comparison =
      compare_part({region, std::span(sum)}, model_.value(match_[t]), plan_.tensors[t].type.shape, finding.tolerance);
}

CheckedTensor PlanComparison::merged(Moment moment, int tensor, int step) const {
  CheckedTensor result;
  result.moment = moment;
  result.tensor = tensor;
  result.step = step;
  const auto& of_moment = findings_[static_cast<size_t>(moment)];
  for (size_t rank = 0; rank < of_moment.size(); ++rank) {
    const Finding& finding = of_moment[rank][static_cast<size_t>(tensor)];
    const Comparison& comparison = finding.comparison;
    if (finding.unequal && !result.unequal) result.unequal = finding.unequal;
    if (comparison.num_elements == 0) continue;
    ++result.num_ranks;
    result.num_elements += comparison.num_elements;
    if (comparison.largest > 0) {
      double part =
          finding.tolerance > 0 ? comparison.largest / finding.tolerance : std::numeric_limits<double>::infinity();
      result.largest = std::max(result.largest, part);
    }
    if (comparison.num_differing == 0) continue;
    if (result.num_differing == 0) {
      result.rank = static_cast<int64_t>(rank);
      result.index = comparison.first;
      result.found = comparison.found;
      result.wanted = comparison.wanted;
      result.tolerance = finding.tolerance;
    }
    result.num_differing += comparison.num_differing;
    ++result.num_differing_ranks;
  }
  return result;
}

std::vector<CheckedTensor> PlanComparison::results() const {
  std::vector<CheckedTensor> results;
  auto add_persistent = [&](Moment moment) {
    for (int t = 0; t < static_cast<int>(plan_.tensors.size()); ++t) {
      if (!is_learned(plan_.tensors[static_cast<size_t>(t)]) || match_[static_cast<size_t>(t)] < 0) continue;
      int step = moment == Moment::kEnd ? updated_by_[static_cast<size_t>(t)] : -1;
      results.push_back(merged(moment, t, step));
    }
  };
  if (has_start_) add_persistent(Moment::kStart);
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    for (int tensor : plan_.steps[i].results) results.push_back(merged(Moment::kMade, tensor, static_cast<int>(i)));
  }
  add_persistent(Moment::kEnd);
  return results;
}

}  // namespace tpc

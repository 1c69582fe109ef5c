#include "compiler/verify/numeric/numeric_proof.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>

#include "compiler/verify/numeric/execution.h"
#include "compiler/verify/numeric/index_loop.h"
#include "compiler/verify/numeric/tiny_plans.h"

namespace tpc::verify {
namespace {

/// Multiplications that are worth the wait: a minute.
constexpr double kMostWork = 2e9;
constexpr uint64_t kSeeds[] = {1, 2};

/// The value that a tensor of a plan is a conversion of: "x" of "x@[S(0), R]".
std::string value_name(const std::string& tensor) { return tensor.substr(0, tensor.rfind("@[")); }

/// What the model's step makes, whole, by name.
struct ModelRun {
  std::map<std::string, std::pair<const PlanTensor*, const Part*>> made;
  std::map<std::string, const Part*> left;
};

FieldTensor tensor_of(const Part& part) {
  // Read only.
  return {"", {}, part.region, const_cast<Element*>(part.data.data())};
}

/// A place where a part is not the model's.
struct Difference {
  std::vector<int64_t> index;
  Element found = 0;
  Element wanted = 0;

  /// " at [0, 3]"; nothing of a scalar.
  std::string place() const { return index.empty() ? "" : fmt::format(" at [{}]", fmt::join(index, ", ")); }
};

std::optional<Difference> first_difference(const Part& part, const Part& whole) {
  std::string letters = dim_letters(part.region.dims.size());
  IndexLoop loop;
  loop.within(letters, part.region);
  loop.follow(tensor_of(part), letters);
  loop.follow(tensor_of(whole), letters);
  std::optional<Difference> first;
  loop.run([&](const int64_t* at, const int64_t* index) {
    Element found = part.data[static_cast<size_t>(at[0])];
    Element wanted = whole.data[static_cast<size_t>(at[1])];
    if (first || found == wanted) return;
    first = Difference{std::vector<int64_t>(index, index + part.region.dims.size()), found, wanted};
  });
  return first;
}

class Comparison {
 public:
  Comparison(const Plan& one_rank, const Plan& plan, std::span<const RankPlan> programs, uint64_t seed)
      : one_rank_(one_rank), plan_(plan), programs_(programs), seed_(seed), leaves_(one_rank, seed) {
    std::vector<RankPlan> program{rank_plan(one_rank, 0)};
    executed_model_ = execute(one_rank, program, leaves_, seed, std::vector<bool>(one_rank.tensors.size(), true));
    for (size_t t = 0; t < one_rank.tensors.size(); ++t) {
      const PlanTensor& tensor = one_rank.tensors[t];
      if (executed_model_.is_made[t][0]) model_.made[tensor.name] = {&tensor, &executed_model_.made[t][0]};
      if (persists(tensor.role)) model_.left[tensor.name] = &executed_model_.left[t][0];
    }
  }

  std::optional<Flaw> run(NumericCount* count) {
    std::vector<bool> keeps(plan_.tensors.size(), false);
    for (const auto& [name, tensor] : plan_.outputs) keeps[static_cast<size_t>(tensor)] = true;
    Executed executed = execute(plan_, programs_, leaves_, seed_, keeps);
    std::string at_end = outputs_flaw(executed);
    if (at_end.empty()) at_end = leaves_flaw(executed);
    if (count != nullptr) count->numbers += numbers_;
    if (at_end.empty()) return std::nullopt;
    keeps.assign(plan_.tensors.size(), true);
    std::optional<Flaw> first = first_wrong_tensor(execute(plan_, programs_, leaves_, seed_, keeps));
    if (!first) return Flaw{-1, at_end};
    first->message += "; " + at_end;
    return first;
  }

 private:
  const PlanTensor& tensor(size_t index) const { return plan_.tensors[index]; }

  /// All ranks hold all of every output.
  std::string outputs_flaw(const Executed& executed) {
    for (const auto& [name, index] : one_rank_.outputs) {
      auto found = plan_.outputs.find(name);
      if (found == plan_.outputs.end()) return fmt::format("output \"{}\" is missing", name);
      auto t = static_cast<size_t>(found->second);
      const Part& wanted = executed_model_.made[static_cast<size_t>(index)][0];
      for (size_t rank = 0; rank < programs_.size(); ++rank) {
        if (!executed.is_made[t][rank]) return fmt::format("rank {} does not make output \"{}\"", rank, name);
        const Part& part = executed.made[t][rank];
        if (part.region != wanted.region) return fmt::format("rank {} makes a part only of output \"{}\"", rank, name);
        numbers_ += static_cast<int64_t>(part.data.size());
        if (std::optional<Difference> difference = first_difference(part, wanted)) {
          return fmt::format("output \"{}\" is {} on rank {}, the model's {}", name, difference->found, rank,
                             difference->wanted);
        }
      }
    }
    for (const auto& [name, index] : plan_.outputs) {
      if (one_rank_.outputs.count(name) == 0) return fmt::format("the model has no output \"{}\"", name);
    }
    return "";
  }

  std::string leaves_flaw(const Executed& executed) {
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const PlanTensor& leaf = tensor(t);
      if (!persists(leaf.role)) continue;
      auto found = model_.left.find(leaf.name);
      if (found == model_.left.end()) return fmt::format("the model has no {} \"{}\"", to_string(leaf.role), leaf.name);
      const Part& wanted = *found->second;
      std::vector<bool> is_held(wanted.data.size(), false);
      for (size_t rank = 0; rank < programs_.size(); ++rank) {
        if (!executed.is_left[t][rank])
          return fmt::format("in the end rank {} holds something else in place of \"{}\"", rank, leaf.name);
        const Part& part = executed.left[t][rank];
        numbers_ += static_cast<int64_t>(part.data.size());
        if (std::optional<Difference> difference = first_difference(part, wanted)) {
          return fmt::format("\"{}\" becomes {} on rank {}{}, the model's {}", leaf.name, difference->found, rank,
                             difference->place(), difference->wanted);
        }
        mark(part.region, wanted.region, is_held);
      }
      if (std::find(is_held.begin(), is_held.end(), false) != is_held.end())
        return fmt::format("no rank holds some elements of \"{}\"", leaf.name);
    }
    return "";
  }

  static void mark(const Region& region, const Region& whole, std::vector<bool>& is_held) {
    std::string letters = dim_letters(region.dims.size());
    IndexLoop loop;
    loop.within(letters, region);
    loop.follow({"", {}, whole, nullptr}, letters);
    loop.run([&](const int64_t* at, const int64_t*) { is_held[static_cast<size_t>(at[0])] = true; });
  }

  std::optional<Flaw> first_wrong_tensor(const Executed& executed) const {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      for (int result : plan_.steps[i].results) {
        std::string message = tensor_flaw(executed, static_cast<size_t>(result));
        if (!message.empty()) return Flaw{static_cast<int>(i), message};
      }
    }
    return std::nullopt;
  }

  std::string tensor_flaw(const Executed& executed, size_t index) const {
    const PlanTensor& made = tensor(index);
    auto known = model_.made.find(value_name(made.name));
    if (known == model_.made.end() || known->second.first->type != made.type) return "";
    const Part& wanted = *known->second.second;
    std::vector<int64_t> summed;
    bool is_maximum = false;
    for (size_t axis = 0; axis < plan_.mesh.num_axes(); ++axis) {
      const Placement& placement = made.sharding.placements[axis];
      if (!placement.is_partial()) continue;
      summed.push_back(static_cast<int64_t>(axis));
      is_maximum = placement.reduce == ReduceOp::kMax;
    }
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      std::vector<int64_t> ranks = plan_.mesh.group(summed, static_cast<int64_t>(rank));
      if (ranks.front() != static_cast<int64_t>(rank)) continue;
      std::optional<Part> together = joined(executed, index, ranks, is_maximum);
      if (!together) return "";
      std::optional<Difference> difference = first_difference(*together, wanted);
      if (!difference) continue;
      std::string of_whom = ranks.size() == 1 ? fmt::format("is {} on rank {}", difference->found, rank)
                                              : fmt::format("is {}, the {} over ranks {}", difference->found,
                                                            is_maximum ? "maximum" : "sum", fmt::join(ranks, ", "));
      return fmt::format("\"{}\" {}{}, the model's is {}", made.name, of_whom, difference->place(), difference->wanted);
    }
    return "";
  }

  /// Absent where ranks have not made it, or other parts of it.
  static std::optional<Part> joined(const Executed& executed, size_t index, const std::vector<int64_t>& ranks,
                                    bool is_maximum) {
    std::optional<Part> all;
    for (int64_t rank : ranks) {
      auto r = static_cast<size_t>(rank);
      const Part& part = executed.made[index][r];
      if (!executed.is_made[index][r] || (all && all->region != part.region)) return std::nullopt;
      if (!all) {
        all = part;
        continue;
      }
      for (size_t i = 0; i < part.data.size(); ++i)
        all->data[i] = is_maximum ? std::max(all->data[i], part.data[i]) : add(all->data[i], part.data[i]);
    }
    return all;
  }

  const Plan& one_rank_;
  const Plan& plan_;
  std::span<const RankPlan> programs_;
  uint64_t seed_;
  LeafValues leaves_;
  Executed executed_model_;
  ModelRun model_;
  int64_t numbers_ = 0;
};

}  // namespace

std::optional<Flaw> numeric_flaw(const Plan& one_rank, const Plan& plan, std::span<const RankPlan> programs,
                                 uint64_t seed, NumericCount* count) {
  try {
    return Comparison(one_rank, plan, programs, seed).run(count);
  } catch (Flaw& flaw) {
    return std::move(flaw);
  }
}

std::optional<Flaw> numeric_flaw(const Plan& one_rank, const Plan& plan, NumericCount* count) {
  TinyPlans tiny;
  try {
    tiny = tiny_plans(one_rank, plan);
  } catch (Flaw& flaw) {
    return std::move(flaw);
  }
  double work = numeric_work(tiny.plan) + numeric_work(tiny.one_rank);
  if (work > kMostWork) {
    throw TooMuchWork{fmt::format(
        "executing the plan on its {} ranks takes about {:.0e} multiplications at the smallest shapes that keep its "
        "structure, above the limit of {:.0e}; without --numeric it is proved for any number of ranks",
        plan.mesh.world_size(), work, kMostWork)};
  }
  RankPrograms programs(tiny.plan);
  std::vector<RankPlan> of_ranks;
  for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) of_ranks.push_back(programs.of(rank));
  for (uint64_t seed : kSeeds) {
    std::optional<Flaw> flaw = numeric_flaw(tiny.one_rank, tiny.plan, of_ranks, seed, count);
    if (flaw) return flaw;
  }
  return std::nullopt;
}

}  // namespace tpc::verify

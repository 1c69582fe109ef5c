#include "compiler/verify/numeric/execution.h"

#include <algorithm>
#include <optional>

#include "compiler/verify/flaw.h"
#include "compiler/verify/numeric/collective_function.h"
#include "compiler/verify/numeric/op_function.h"
#include "compiler/verify/numeric/program_check.h"

namespace tpc::verify {
namespace {

class Execution {
 public:
  Execution(const Plan& plan, std::span<const RankPlan> programs, uint64_t seed, const std::vector<bool>& keeps)
      : plan_(plan), programs_(programs), seed_(seed), keeps_(keeps), next_(programs.size(), 0) {
    size_t world = programs.size();
    executed_.made.resize(plan.tensors.size());
    executed_.is_made.resize(plan.tensors.size());
    for (size_t t = 0; t < plan.tensors.size(); ++t) {
      if (!keeps[t]) continue;
      executed_.made[t].resize(world);
      executed_.is_made[t].resize(world, false);
    }
    for (size_t rank = 0; rank < world; ++rank) memories_.emplace_back(plan);
  }

  Executed run(const LeafValues& leaves) {
    load(leaves);
    bool goes_on = true;
    while (goes_on) {
      goes_on = false;
      for (size_t rank = 0; rank < programs_.size(); ++rank) goes_on = run_to_collective(rank) || goes_on;
      for (size_t rank = 0; rank < programs_.size(); ++rank) goes_on = make_collective(rank) || goes_on;
    }
    check_ended();
    keep_leaves();
    return std::move(executed_);
  }

 private:
  const RankStep* waiting(size_t rank) const {
    const std::vector<RankStep>& steps = *programs_[rank].steps;
    return next_[rank] < steps.size() ? &steps[next_[rank]] : nullptr;
  }
  const PlanStep& plan_step(const RankStep& step) const { return plan_.steps[static_cast<size_t>(step.step)]; }
  const std::string& name(int tensor) const { return plan_.tensors[static_cast<size_t>(tensor)].name; }

  void load(const LeafValues& leaves) {
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (!persists(plan_.tensors[t].role)) continue;
      for (size_t rank = 0; rank < programs_.size(); ++rank) {
        const Region& region = programs_[rank].region(static_cast<int>(t));
        memories_[rank].write(static_cast<int>(t), {region, leaves.part(plan_.tensors[t], region)});
      }
    }
  }

  /// Whether the rank ran a step.
  bool run_to_collective(size_t rank) {
    bool runs = false;
    for (const RankStep* step = waiting(rank); step != nullptr && !is_collective(plan_step(*step).op);
         step = waiting(rank)) {
      try {
        run_local(rank, *step);
      } catch (const OpFault& fault) {
        throw_flaw(step->step, "rank {} {}", rank, fault.message);
      }
      ++next_[rank];
      runs = true;
    }
    return runs;
  }

  const Part& read(size_t rank, int tensor) const {
    return memories_[rank].read(tensor, programs_[rank].region(tensor));
  }

  void run_local(size_t rank, const RankStep& own) {
    const PlanStep& step = plan_step(own);
    if (step.op == OpKind::kUpdate) return update(rank, step);
    OpFunction function = op_function(step.op);
    if (function == nullptr) {
      for (int operand : step.operands) read(rank, operand);
      return;
    }
    std::vector<FieldTensor> operands;
    for (int operand : step.operands) {
      const Part& part = read(rank, operand);
      // Read only.
      operands.push_back({name(operand), plan_.tensors[static_cast<size_t>(operand)].type.shape, part.region,
                          const_cast<Element*>(part.data.data())});
    }
    std::vector<Part> made;
    std::vector<FieldTensor> results;
    made.reserve(step.results.size());
    for (int result : step.results) {
      const Region& region = programs_[rank].region(result);
      made.push_back({region, std::vector<Element>(static_cast<size_t>(region.num_elements()))});
      results.push_back(
          {name(result), plan_.tensors[static_cast<size_t>(result)].type.shape, region, made.back().data.data()});
    }
    bool is_first = step.op != OpKind::kMask || programs_[rank].move(own)->index == 0;
    function({step.attributes, operands, results, seed_, is_first});
    for (size_t i = 0; i < made.size(); ++i) {
      keep(rank, step.results[i], made[i]);
      if (step.op == OpKind::kReshape) {
        memories_[rank].share(step.results[i], step.operands[0], std::move(made[i]));
      } else {
        memories_[rank].write(step.results[i], std::move(made[i]));
      }
    }
  }

  void update(size_t rank, const PlanStep& step) {
    int target = step.operands[0];
    Part value = read(rank, step.operands[1]);
    if (value.region != programs_[rank].region(target))
      throw OpFault{"has another part of \"" + name(step.operands[1]) + "\" than of \"" + name(target) + "\""};
    memories_[rank].share(target, step.operands[1], std::move(value));
  }

  void keep(size_t rank, int tensor, const Part& part) {
    auto index = static_cast<size_t>(tensor);
    if (!keeps_[index]) return;
    executed_.made[index][rank] = part;
    executed_.is_made[index][rank] = true;
  }

  const MoveGroup& group(size_t rank, const RankStep& step) const { return *programs_[rank].move(step)->group; }

  /// The first of the rank's group that has not come to a collective of the same group.
  std::optional<size_t> missing(size_t rank) const {
    const MoveGroup& own = group(rank, *waiting(rank));
    for (int64_t member : own.ranks) {
      const RankStep* step = waiting(static_cast<size_t>(member));
      bool has_come = step != nullptr && is_collective(plan_step(*step).op);
      if (!has_come) return static_cast<size_t>(member);
      const MoveGroup& other = group(static_cast<size_t>(member), *step);
      if (&other != &own && other.ranks != own.ranks) return static_cast<size_t>(member);
    }
    return std::nullopt;
  }

  std::string words(const RankStep* step) const {
    if (step == nullptr) return "has come to its end";
    const PlanStep& here = plan_step(*step);
    return fmt::format("is at step {}, the {} of \"{}\"", step->step, op_name(here.op), name(here.operands[0]));
  }

  /// Whether the collective that the rank waits for was made.
  bool make_collective(size_t rank) {
    const RankStep* own = waiting(rank);
    if (own == nullptr || !is_collective(plan_step(*own).op) || missing(rank)) return false;
    const MoveGroup& own_group = group(rank, *own);
    const PlanStep& step = plan_step(*own);
    std::vector<const Part*> parts;
    for (int64_t member : own_group.ranks) {
      auto other = static_cast<size_t>(member);
      const RankStep* theirs = waiting(other);
      if (theirs->step != own->step)
        throw_flaw(own->step, "rank {} {} where rank {} {}", rank, words(own), member, words(theirs));
      check_views(rank, *own, other);
      try {
        parts.push_back(&read(other, step.operands[0]));
      } catch (const OpFault& fault) {
        throw_flaw(own->step, "rank {} {}", member, fault.message);
      }
    }
    std::vector<Part> results;
    for (int64_t member : own_group.ranks) {
      const Region& region = programs_[static_cast<size_t>(member)].region(step.results[0]);
      auto known =
          std::find_if(results.begin(), results.end(), [&](const Part& part) { return part.region == region; });
      try {
        results.push_back(known != results.end() ? *known : collective_result(step.op, step.attributes, parts, region));
      } catch (const OpFault& fault) {
        throw_flaw(own->step, "rank {}: {}", member, fault.message);
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      auto member = static_cast<size_t>(own_group.ranks[i]);
      keep(member, step.results[0], results[i]);
      memories_[member].write(step.results[0], std::move(results[i]));
      ++next_[member];
    }
    return true;
  }

  /// A member must hold before and after what `rank` takes it to hold, and the other way round.
  void check_views(size_t rank, const RankStep& own, size_t member) const {
    const PlanStep& step = plan_step(own);
    const RankPlan& other = programs_[member];
    const RankMove& move = *programs_[rank].move(own);
    const RankMove& theirs = *other.move(*waiting(member));
    auto index = static_cast<size_t>(theirs.index);
    bool is_known = move.group->inputs[index] == other.region(step.operands[0]) &&
                    move.group->outputs[index] == other.region(step.results[0]) &&
                    (move.group == theirs.group || *move.group == *theirs.group);
    if (!is_known)
      throw_flaw(own.step, "rank {} takes rank {} to hold another part of \"{}\" than it does", rank, member,
                 name(step.operands[0]));
  }

  void check_ended() const {
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      const RankStep* own = waiting(rank);
      if (own == nullptr) continue;
      size_t member = missing(rank).value_or(rank);
      throw_flaw(own->step, "rank {} {} and waits for rank {}, which {}: they wait forever", rank, words(own), member,
                 words(waiting(member)));
    }
  }

  void keep_leaves() {
    executed_.left.resize(plan_.tensors.size());
    executed_.is_left.resize(plan_.tensors.size());
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (!persists(plan_.tensors[t].role)) continue;
      for (size_t rank = 0; rank < programs_.size(); ++rank) {
        const Part* part = memories_[rank].find(static_cast<int>(t));
        executed_.left[t].push_back(part == nullptr ? Part{} : *part);
        executed_.is_left[t].push_back(part != nullptr);
      }
    }
  }

  const Plan& plan_;
  std::span<const RankPlan> programs_;
  uint64_t seed_;
  const std::vector<bool>& keeps_;
  std::vector<size_t> next_;  ///< per rank, position in its steps
  std::vector<RankMemory> memories_;
  Executed executed_;
};

}  // namespace

Executed execute(const Plan& plan, std::span<const RankPlan> programs, const LeafValues& leaves, uint64_t seed,
                 const std::vector<bool>& keeps) {
  check_programs(plan, programs);
  return Execution(plan, programs, seed, keeps).run(leaves);
}

}  // namespace tpc::verify

#include "compiler/lowering/rank_steps.h"

#include <algorithm>
#include <iterator>

#include "compiler/core/check.h"

namespace tpc {
namespace {

ReduceOp reduce_op(const PlanStep& step) {
  bool is_max = step.attributes.has("op") && step.attributes.get_string("op") == "max";
  return is_max ? ReduceOp::kMax : ReduceOp::kSum;
}

class Lowering {
 public:
  Lowering(const Plan& plan, const RankPlan& program, std::byte* arena, const NumTogether& num_together)
      : plan_(plan),
        program_(program),
        arena_(arena),
        num_together_(num_together),
        change_(first_changing_step(plan)) {}

  RankUnits run() {
    auto size = static_cast<int>(program_.steps->size());
    for (int i = 0; i < size;) {
      TPC_CHECK(rank_step(i).step == i, "rank {} runs step {} as number {}", program_.rank, rank_step(i).step, i);
      if (is_collective(step(i).op)) {
        RankUnit& unit = add_unit(i);
        unit.collective = collective(i);
        unit.queue = DeviceQueueKind::kCommunication;
        ++i;
        continue;
      }
      // One kernel may do several steps that no collective and no look at the outputs parts.
      int end = i + 1;
      while (end < size && end != change_ && !is_collective(step(end).op)) ++end;
      add_kernels(i, end);
      i = end;
    }
    auto change = std::ranges::find_if(result_.units, [&](const RankUnit& unit) { return unit.first >= change_; });
    result_.first_change = static_cast<size_t>(change - result_.units.begin());
    add_waits();
    return std::move(result_);
  }

 private:
  const RankStep& rank_step(int i) const { return (*program_.steps)[static_cast<size_t>(i)]; }
  const PlanStep& step(int i) const { return plan_.steps[static_cast<size_t>(i)]; }
  LocalTensor local(int tensor) const { return local_tensor(plan_, program_, tensor, arena_); }

  RankUnit& add_unit(int step) {
    RankUnit& unit = result_.units.emplace_back();
    unit.first = step;
    unit.end = step + 1;
    return unit;
  }

  bool is_kernel(int i) const {
    switch (step(i).op) {
      case OpKind::kParameter:
      case OpKind::kInput:
      case OpKind::kState:
      case OpKind::kOutput:
        return false;
      case OpKind::kUpdate:
        // The new value may have been written over the old one by its own step.
        return local(step(i).operands[0]).data != local(step(i).operands[1]).data;
      default:
        return true;
    }
  }

  LocalStep kernel_step(int i) const {
    const RankMove* move = program_.move(rank_step(i));
    LocalStep result{step(i).op, step(i).attributes, {}, {}, step(i).layer, move == nullptr || move->index == 0};
    for (int operand : step(i).operands) result.operands.push_back(local(operand));
    for (int tensor : step(i).results) result.results.push_back(local(tensor));
    return result;
  }

  CollectiveStep collective(int i) const {
    const RankMove* move = program_.move(rank_step(i));
    CollectiveStep result;
    result.op = step(i).op;
    result.reduce = reduce_op(step(i));
    result.group = move->group->ranks;
    result.index = move->index;
    result.input = local(step(i).operands[0]);
    result.output = local(step(i).results[0]);
    result.input_regions = move->group->inputs;
    result.output_regions = move->group->outputs;
    result.step_index = i;
    result.name = plan_.tensors[static_cast<size_t>(step(i).results[0])].name;
    return result;
  }

  // Of steps [begin, end), none of them a collective.
  void add_kernels(int begin, int end) {
    std::vector<LocalStep> kernels;
    std::vector<int> steps;
    for (int i = begin; i < end; ++i) {
      if (!is_kernel(i)) continue;
      kernels.push_back(kernel_step(i));
      steps.push_back(i);
    }
    size_t done = 0;
    for (int i = begin; i < end; i = result_.units.back().end) {
      RankUnit& unit = add_unit(i);
      if (!is_kernel(i)) continue;
      std::span<const LocalStep> rest = std::span(kernels).subspan(done);
      size_t count = num_together_ ? num_together_(rest) : 1;
      TPC_CHECK(count >= 1 && count <= rest.size(), "{} of {} steps together", count, rest.size());
      unit.kernel.assign(std::make_move_iterator(kernels.begin() + static_cast<std::ptrdiff_t>(done)),
                         std::make_move_iterator(kernels.begin() + static_cast<std::ptrdiff_t>(done + count)));
      unit.kernel_steps.assign(steps.begin() + static_cast<std::ptrdiff_t>(done),
                               steps.begin() + static_cast<std::ptrdiff_t>(done + count));
      done += count;
      unit.end = unit.kernel_steps.back() + 1;
    }
  }

  void add_waits() {
    std::vector<OrderedStep> order = order_steps(plan_);
    for (RankUnit& unit : result_.units) {
      for (int i = unit.first; i < unit.end; ++i) {
        int awaited = order[static_cast<size_t>(i)].waits_for;
        // All that lies before the change is done when the rest is issued.
        if (awaited < 0 || (awaited < change_ && i >= change_)) continue;
        auto after = std::ranges::upper_bound(result_.units, awaited, {}, &RankUnit::first);
        unit.waits_for.push_back(static_cast<size_t>(after - result_.units.begin()) - 1);
        result_.units[unit.waits_for.back()].is_awaited = true;
      }
    }
  }

  const Plan& plan_;
  const RankPlan& program_;
  std::byte* arena_;
  const NumTogether& num_together_;
  int change_;
  RankUnits result_;
};

}  // namespace

LocalTensor local_tensor(const Plan& plan, const RankPlan& program, int tensor, std::byte* arena) {
  const PlanTensor& t = plan.tensors[static_cast<size_t>(tensor)];
  return {t.type, program.region(tensor), arena + t.offset};
}

RankUnits lower_rank(const Plan& plan, const RankPlan& program, std::byte* arena, const NumTogether& num_together) {
  return Lowering(plan, program, arena, num_together).run();
}

int first_changing_step(const Plan& plan) {
  auto changes = [&](const PlanStep& step) {
    return step.op == OpKind::kUpdate || std::ranges::any_of(step.results, [&](int tensor) {
             return plan.tensors[static_cast<size_t>(tensor)].offset < plan.persistent_bytes;
           });
  };
  return static_cast<int>(std::ranges::find_if(plan.steps, changes) - plan.steps.begin());
}

}  // namespace tpc

#include "runtime/check/double_run.h"

#include <algorithm>
#include <limits>

#include "compiler/core/check.h"
#include "compiler/lowering/region_copy.h"
#include "runtime/check/model_step.h"
#include "runtime/initial_values.h"

namespace tpc {
namespace {

bool reduces(OpKind op) { return op == OpKind::kAllReduce || op == OpKind::kReduceScatter; }

bool is_max(const PlanStep& step) { return step.attributes.has("op") && step.attributes.get_string("op") == "max"; }

}  // namespace

DoubleRun::DoubleRun(Plan plan, uint64_t seed)
    : plan_(std::move(plan)), plan_element_(smallest_element(plan_)), context_{seed, 0} {
  RankPrograms programs(plan_);
  for (int64_t rank = 0; rank < plan_.mesh.world_size(); ++rank) {
    ranks_.push_back(programs.of(rank));
    arenas_.push_back(std::make_unique<double[]>(static_cast<size_t>(plan_.arena_bytes / plan_element_)));
    for (int t = 0; t < static_cast<int>(plan_.tensors.size()); ++t) fill(rank, t);
  }
}

double* DoubleRun::address(int64_t rank, int tensor) const {
  return arenas_[static_cast<size_t>(rank)].get() + plan_.tensors[static_cast<size_t>(tensor)].offset / plan_element_;
}

RankPart DoubleRun::part(int64_t rank, int tensor) const {
  const Region& region = ranks_[static_cast<size_t>(rank)].region(tensor);
  return {region, std::span(address(rank, tensor), static_cast<size_t>(region.num_elements()))};
}

double DoubleRun::epsilon(DType /*dtype*/) const { return std::numeric_limits<double>::epsilon(); }

void DoubleRun::fill(int64_t rank, int tensor) {
  const PlanTensor& t = plan_.tensors[static_cast<size_t>(tensor)];
  if (t.role != TensorRole::kParameter && t.role != TensorRole::kState) return;
  const Region& region = ranks_[static_cast<size_t>(rank)].region(tensor);
  std::vector<float> values(static_cast<size_t>(region.num_elements()));
  fill_initial(t, context_.seed, {t.type, region, values.data()});
  std::copy(values.begin(), values.end(), address(rank, tensor));
}

void DoubleRun::run_step(const Batch& batch, const StepObserver& after) {
  for (int t = 0; t < static_cast<int>(plan_.tensors.size()); ++t) {
    const PlanTensor& tensor = plan_.tensors[static_cast<size_t>(t)];
    auto given = batch.find(tensor.name);
    if (tensor.role != TensorRole::kInput || given == batch.end()) continue;
    const HostTensor& host = given->second;
    Values whole = host.type.dtype == DType::kF32 ? std::vector<double>(host.f32.begin(), host.f32.end())
                                                  : std::vector<double>(host.i32.begin(), host.i32.end());
    for (const RankPlan& rank : ranks_) load_part(whole, tensor.type.shape, part(rank.rank, t));
  }
  for (const RankStep& step : *ranks_[0].steps) {
    if (is_collective(plan_.steps[static_cast<size_t>(step.step)].op)) {
      run_collective(step);
    } else {
      for (const RankPlan& rank : ranks_) run_kernel(rank, step);
    }
    for (const RankPlan& rank : ranks_) after(rank.rank, step.step);
  }
  ++context_.step;
}

void DoubleRun::run_kernel(const RankPlan& rank, const RankStep& rank_step) {
  const PlanStep& step = plan_.steps[static_cast<size_t>(rank_step.step)];
  if (step.op == OpKind::kOutput) return;
  if (step.op == OpKind::kUpdate) {
    double* target = address(rank.rank, step.operands[0]);
    const double* source = address(rank.rank, step.operands[1]);
    if (target != source) std::copy_n(source, rank.region(step.operands[0]).num_elements(), target);
    return;
  }
  std::vector<ReferenceTensor> operands, results;
  std::vector<std::vector<double>> made;
  auto type = [&](int tensor) { return plan_.tensors[static_cast<size_t>(tensor)].type; };
  for (int operand : step.operands) {
    operands.push_back({type(operand), rank.region(operand), address(rank.rank, operand)});
  }
  // Reference kernels do not work in place, and what one leaves out must be seen.
  for (int result : step.results) {
    made.emplace_back(static_cast<size_t>(rank.region(result).num_elements()),
                      std::numeric_limits<double>::quiet_NaN());
    results.push_back({type(result), rank.region(result), made.back().data()});
  }
  const RankMove* move = rank.move(rank_step);
  op_def(step.op).reference({step.attributes, operands, results, context_, move == nullptr || move->index == 0});
  for (size_t i = 0; i < made.size(); ++i) {
    std::copy(made[i].begin(), made[i].end(), address(rank.rank, step.results[i]));
  }
}

void DoubleRun::run_collective(const RankStep& rank_step) {
  std::vector<std::vector<double>> made;
  for (const RankPlan& rank : ranks_) made.push_back(exchanged(rank, rank_step));
  int result = plan_.steps[static_cast<size_t>(rank_step.step)].results[0];
  for (const RankPlan& rank : ranks_) {
    const std::vector<double>& part = made[static_cast<size_t>(rank.rank)];
    std::copy(part.begin(), part.end(), address(rank.rank, result));
  }
}

std::vector<double> DoubleRun::exchanged(const RankPlan& rank, const RankStep& rank_step) const {
  const PlanStep& step = plan_.steps[static_cast<size_t>(rank_step.step)];
  const Region& region = rank.region(step.results[0]);
  const MoveGroup& group = *rank.move(rank_step)->group;
  std::vector<double> result(static_cast<size_t>(region.num_elements()));
  for (size_t member = 0; member < group.ranks.size(); ++member) {
    const double* source = address(group.ranks[member], step.operands[0]);
    bool is_first = member == 0;
    RegionCopy(group.inputs[member], region).for_each_run([&](int64_t from, int64_t to, int64_t length) {
      for (int64_t i = 0; i < length; ++i) {
        double& target = result[static_cast<size_t>(to + i)];
        double value = source[from + i];
        if (is_first || !reduces(step.op)) {
          target = value;
        } else {
          target = is_max(step) ? std::max(target, value) : target + value;
        }
      }
    });
  }
  return result;
}

}  // namespace tpc

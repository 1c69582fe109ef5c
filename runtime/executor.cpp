#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "runtime/region_copy.h"

namespace tpc {
namespace {

size_t local_bytes(const LocalTensor& tensor) {
  return static_cast<size_t>(tensor.region.num_elements() * byte_size(tensor.type.dtype));
}

bool is_finite(const LocalTensor& tensor) {
  auto all_finite = [&](const auto* data) {
    return std::all_of(data, data + tensor.region.num_elements(),
                       [](auto x) { return std::isfinite(static_cast<float>(x)); });
  };
  if (!is_float(tensor.type.dtype)) return true;
  return tensor.type.dtype == DType::kBF16 ? all_finite(tensor.bf16()) : all_finite(tensor.f32());
}

ReduceOp reduce_op(const PlanStep& step) {
  bool is_max = step.attributes.has("op") && step.attributes.get_string("op") == "max";
  return is_max ? ReduceOp::kMax : ReduceOp::kSum;
}

}  // namespace

std::string describe_step(const Plan& plan, int step) {
  const PlanStep& s = plan.steps[static_cast<size_t>(step)];
  return fmt::format("\"{}\" ({})", s.layer, op_name(s.op));
}

RankExecutor::RankExecutor(const Plan& plan, RankPlan program, Backend& backend, Communicator& communicator)
    : plan_(plan), program_(std::move(program)), arena_(plan.arena_bytes) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    int64_t bytes = program_.region(static_cast<int>(t)).num_elements() * byte_size(tensor.type.dtype);
    TPC_CHECK(tensor.offset >= 0 && bytes <= tensor.bytes && tensor.offset + tensor.bytes <= plan.arena_bytes,
              "\"{}\" ({} bytes at {}) does not lie in its buffer of {} in an arena of {}", tensor.name, bytes,
              tensor.offset, tensor.bytes, plan.arena_bytes);
  }
  for (const RankStep& step : *program_.steps) {
    TPC_CHECK(step.step == static_cast<int>(steps_.size()), "rank {} runs step {} as number {}", rank(), step.step,
              steps_.size());
    steps_.push_back(prepare(step, backend, communicator));
  }
  for (const auto& [name, tensor] : plan.outputs) keep(tensor);
}

LocalTensor RankExecutor::local(int tensor) const {
  const PlanTensor& t = plan_.tensors[static_cast<size_t>(tensor)];
  return {t.type, program_.region(tensor), arena_.data() + t.offset};
}

RankExecutor::Step RankExecutor::prepare(const RankStep& rank_step, Backend& backend, Communicator& communicator) {
  const PlanStep& step = plan_.steps[static_cast<size_t>(rank_step.step)];
  const RankMove* move = program_.move(rank_step);
  Step prepared;
  std::vector<LocalTensor> operands, results;
  for (int operand : step.operands) operands.push_back(local(operand));
  for (int result : step.results) results.push_back(local(result));

  if (is_collective(step.op)) {
    CollectiveStep collective;
    collective.op = step.op;
    collective.reduce = reduce_op(step);
    collective.group = move->group->ranks;
    collective.index = move->index;
    collective.input = operands[0];
    collective.output = results[0];
    collective.input_regions = move->group->inputs;
    collective.output_regions = move->group->outputs;
    collective.step_index = rank_step.step;
    collective.name = plan_.tensors[static_cast<size_t>(step.results[0])].name;
    prepared.collective = communicator.prepare(collective);
    prepared.counted = &counted_[{step.op, step.phase}];
    predicted_[{step.op, step.phase}] += move->received_bytes;
    return prepared;
  }
  // The new value may have been written over the old one by its own step.
  if (step.op == OpKind::kUpdate && operands[0].data == operands[1].data) return prepared;
  switch (step.op) {
    case OpKind::kParameter:
    case OpKind::kInput:
    case OpKind::kState:
    case OpKind::kOutput:
      return prepared;
    default:
      prepared.kernel = backend.prepare({step.op, step.attributes, std::move(operands), std::move(results), step.layer,
                                         move == nullptr || move->index == 0});
      return prepared;
  }
}

void RankExecutor::load(int tensor, const HostTensor& whole) {
  LocalTensor target = local(tensor);
  TPC_CHECK(whole.type == target.type, "\"{}\" is {}, given {}", plan_.tensors[static_cast<size_t>(tensor)].name,
            to_string(target.type), to_string(whole.type));
  RegionCopy(whole_region(whole.type.shape), target.region).run(whole.data(), target.data, byte_size(whole.type.dtype));
}

void RankExecutor::keep(int tensor) {
  if (kept_.contains(tensor)) return;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::vector<int>& results = plan_.steps[i].results;
    if (std::find(results.begin(), results.end(), tensor) == results.end()) continue;
    const PlanTensor& t = plan_.tensors[static_cast<size_t>(tensor)];
    kept_.emplace(tensor, HostTensor::of({t.type.dtype, program_.region(tensor).extents()}));
    steps_[i].kept.push_back(tensor);
    return;
  }
}

std::optional<LocalTensor> RankExecutor::kept_or_persistent(int tensor) const {
  LocalTensor found = local(tensor);
  if (auto it = kept_.find(tensor); it != kept_.end()) {
    found.data = const_cast<void*>(it->second.data());
    return found;
  }
  if (persists(plan_.tensors[static_cast<size_t>(tensor)].role)) return found;
  return std::nullopt;
}

bool RankExecutor::is_output(int tensor) const {
  return std::any_of(plan_.outputs.begin(), plan_.outputs.end(), [&](const auto& o) { return o.second == tensor; });
}

void RankExecutor::execute(Step& step, const StepContext& context, bool count) {
  if (step.kernel) {
    step.kernel->run(context);
  } else if (step.collective) {
    int64_t received = step.collective->run();
    if (count) *step.counted += received;
  }
}

// False when a named output is not finite.
bool RankExecutor::keep_results(Step& step) {
  bool is_good = true;
  for (int tensor : step.kept) {
    LocalTensor result = local(tensor);
    std::memcpy(kept_.at(tensor).data(), result.data, local_bytes(result));
    if (is_output(tensor) && !is_finite(result)) is_good = false;
  }
  return is_good;
}

std::optional<int> RankExecutor::run_step(const StepContext& context) {
  try {
    for (size_t i = 0; i < steps_.size(); ++i) {
      position_.store(static_cast<int>(i), std::memory_order_relaxed);
      execute(steps_[i], context, /*count=*/true);
      if (observer_) observer_(rank(), static_cast<int>(i));
      if (!steps_[i].kept.empty() && !keep_results(steps_[i])) return static_cast<int>(i);
    }
  } catch (...) {
    rethrow_with_place(context);
  }
  position_.store(-1, std::memory_order_relaxed);
  return std::nullopt;
}

bool RankExecutor::changes_persistent_before(int end) const {
  return std::any_of(plan_.steps.begin(), plan_.steps.begin() + end, [&](const PlanStep& step) {
    return step.op == OpKind::kUpdate || std::any_of(step.results.begin(), step.results.end(), [&](int tensor) {
             return plan_.tensors[static_cast<size_t>(tensor)].offset < plan_.persistent_bytes;
           });
  });
}

std::optional<NonFinite> RankExecutor::find_non_finite(const StepContext& context, int end) {
  std::optional<NonFinite> first;
  for (int t = 0; t < static_cast<int>(plan_.tensors.size()) && !first; ++t) {
    if (persists(plan_.tensors[static_cast<size_t>(t)].role) && !is_finite(local(t))) first = NonFinite{-1, t};
  }
  // With a finding or not, every rank goes on to the end, for the others wait at collectives.
  try {
    for (size_t i = 0; i < static_cast<size_t>(end); ++i) {
      position_.store(static_cast<int>(i), std::memory_order_relaxed);
      execute(steps_[i], context, /*count=*/false);
      if (first) continue;
      for (int tensor : plan_.steps[i].results) {
        if (!first && !is_finite(local(tensor))) first = NonFinite{static_cast<int>(i), tensor};
      }
    }
  } catch (...) {
    rethrow_with_place(context);
  }
  return first;
}

void RankExecutor::rethrow_with_place(const StepContext& context) const {
  std::string place =
      fmt::format("rank {}, training step {}, {}", rank(), context.step, describe_step(plan_, position()));
  try {
    throw;
  } catch (const RunEnded&) {
    throw;
  } catch (const UserError&) {
    throw;
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("{}: {}", place, error.what()));
  } catch (const std::bad_alloc&) {
    throw DeviceError(fmt::format("{}: out of memory", place));
  } catch (const std::exception& error) {
    throw InternalError(fmt::format("{}: {}", place, error.what()));
  }
}

}  // namespace tpc

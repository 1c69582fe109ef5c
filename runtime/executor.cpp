#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <new>
#include <span>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/lowering/rank_steps.h"
#include "compiler/lowering/region_copy.h"

namespace tpc {
namespace {

bool is_finite(const HostTensor& tensor) {
  auto all_finite = [](const auto& values) {
    return std::ranges::all_of(values, [](auto x) { return std::isfinite(static_cast<float>(x)); });
  };
  return tensor.type.dtype == DType::kBF16 ? all_finite(tensor.bf16) : all_finite(tensor.f32);
}

// Throws what is handled now again, with the place in front.
[[noreturn]] void rethrow_at(const std::string& place) {
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

}  // namespace

std::string describe_step(const Plan& plan, int step) {
  const PlanStep& s = plan.steps[static_cast<size_t>(step)];
  return fmt::format("\"{}\" ({})", s.layer, op_name(s.op));
}

RankExecutor::RankExecutor(const Plan& plan, RankPlan program, Backend& backend, Communicator& communicator,
                           ExecutorOptions options)
    : plan_(plan),
      program_(std::move(program)),
      backend_(backend),
      arena_(backend.allocate(plan.arena_bytes, options.is_observed)),
      is_observed_(options.is_observed) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    int64_t bytes = program_.region(static_cast<int>(t)).num_elements() * byte_size(tensor.type.dtype);
    TPC_CHECK(tensor.offset >= 0 && bytes <= tensor.bytes && tensor.offset + tensor.bytes <= plan.arena_bytes,
              "\"{}\" ({} bytes at {}) does not lie in its buffer of {} in an arena of {}", tensor.name, bytes,
              tensor.offset, tensor.bytes, plan.arena_bytes);
  }
  communicator.use_memory(arena_->data(), plan.arena_bytes);
  NumTogether num_together = [&](std::span<const LocalStep> steps) { return backend.num_together(steps); };
  RankUnits lowered = lower_rank(plan, program_, arena_->data(), is_observed_ ? NumTogether() : num_together);
  for (RankUnit& unit : lowered.units) {
    try {
      steps_.push_back(prepare(unit, communicator));
    } catch (...) {
      rethrow_at(fmt::format("preparing {}", describe_step(plan, unit.first)));
    }
  }
  planned_memory_ = plan.arena_bytes + backend_.planned_workspace(lowered);
  for (size_t i = 0; i < lowered.units.size(); ++i) {
    for (size_t awaited : lowered.units[i].waits_for) {
      if (steps_[awaited].mark) steps_[i].awaited.push_back(steps_[awaited].mark.get());
    }
  }
  first_change_ = lowered.first_change;
  for (const auto& [name, tensor] : plan.outputs) keep(tensor);
}

LocalTensor RankExecutor::local(int tensor) const { return local_tensor(plan_, program_, tensor, arena_->data()); }

RankExecutor::Step RankExecutor::prepare(const RankUnit& unit, Communicator& communicator) {
  Step step;
  step.first = unit.first;
  step.end = unit.end;
  step.queue = unit.queue;
  for (const LocalStep& part : unit.kernel) step.ops.push_back(part.op);
  if (!unit.kernel.empty()) step.kernel = backend_.prepare_together(unit.kernel);
  if (unit.collective) {
    const PlanStep& collective = plan_.steps[static_cast<size_t>(unit.first)];
    step.ops = {unit.collective->op};
    step.collective = communicator.prepare(*unit.collective);
    step.counted = &counted_[{collective.op, collective.phase}];
    predicted_[{collective.op, collective.phase}] +=
        program_.move((*program_.steps)[static_cast<size_t>(unit.first)])->received_bytes;
  }
  if (unit.is_awaited) step.mark = backend_.make_mark(unit.queue);
  return step;
}

bool RankExecutor::changes_persistent_before(int end) const { return end > first_changing_step(plan_); }

RankExecutor::Step& RankExecutor::step_of(int plan_step) {
  auto after = std::upper_bound(steps_.begin(), steps_.end(), plan_step,
                                [](int index, const Step& step) { return index < step.first; });
  return *std::prev(after);
}

void RankExecutor::fill(int tensor, const std::function<void(const LocalTensor&)>& fill) {
  LocalTensor target = local(tensor);
  if (backend_.is_host()) {
    fill(target);
    return;
  }
  HostTensor staged = HostTensor::of({target.type.dtype, target.region.extents()});
  fill({target.type, target.region, staged.data()});
  backend_.upload(target.data, staged.data(), target.num_bytes());
}

void RankExecutor::load(int tensor, const HostTensor& whole) {
  fill(tensor, [&](const LocalTensor& target) {
    TPC_CHECK(whole.type == target.type, "\"{}\" is {}, given {}", plan_.tensors[static_cast<size_t>(tensor)].name,
              to_string(target.type), to_string(whole.type));
    RegionCopy(whole_region(whole.type.shape), target.region)
        .run(whole.data(), target.data, byte_size(whole.type.dtype));
  });
}

void RankExecutor::keep(int tensor) {
  if (kept_.contains(tensor)) return;
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const std::vector<int>& results = plan_.steps[i].results;
    if (std::find(results.begin(), results.end(), tensor) == results.end()) continue;
    Step& step = step_of(static_cast<int>(i));
    TPC_CHECK(static_cast<int>(i) + 1 == step.end, "\"{}\" is made inside a kernel of {} steps",
              plan_.tensors[static_cast<size_t>(tensor)].name, step.end - step.first);
    void* host = backend_.host_buffer(local(tensor).num_bytes());
    kept_.emplace(tensor, host);
    step.kept.push_back({tensor, host});
    return;
  }
}

HostTensor RankExecutor::read(int tensor) const {
  LocalTensor source = local(tensor);
  HostTensor part = HostTensor::of({source.type.dtype, source.region.extents()});
  // Whichever queue wrote it.
  backend_.wait();
  backend_.download(part.data(), source.data, source.num_bytes(), DeviceQueueKind::kCompute);
  backend_.wait();
  return part;
}

std::optional<HostTensor> RankExecutor::kept_or_persistent(int tensor) const {
  if (auto it = kept_.find(tensor); it != kept_.end()) {
    LocalTensor source = local(tensor);
    HostTensor part = HostTensor::of({source.type.dtype, source.region.extents()});
    std::memcpy(part.data(), it->second, static_cast<size_t>(source.num_bytes()));
    return part;
  }
  if (persists(plan_.tensors[static_cast<size_t>(tensor)].role)) return read(tensor);
  return std::nullopt;
}

float RankExecutor::output_value(int tensor) const {
  float value = 0;
  std::memcpy(&value, kept_.at(tensor), sizeof value);
  return value;
}

bool RankExecutor::is_output(int tensor) const {
  return std::any_of(plan_.outputs.begin(), plan_.outputs.end(), [&](const auto& o) { return o.second == tensor; });
}

void RankExecutor::observe(StepObserver observer) {
  TPC_CHECK(is_observed_, "rank {} was not made to be observed", rank());
  observer_ = std::move(observer);
}

void RankExecutor::issue(Step& step, const StepContext& context) {
  for (Mark* mark : step.awaited) mark->await();
  if (step.kernel) {
    step.kernel->run(context);
  } else if (step.collective) {
    step.received = step.collective->run();
  }
  for (const Kept& kept : step.kept) {
    LocalTensor result = local(kept.tensor);
    backend_.download(kept.host, result.data, result.num_bytes(), step.queue);
  }
  if (step.mark) step.mark->set();
}

void RankExecutor::issue_timed(Step& step, const StepContext& context) {
  backend_.wait();
  auto start = std::chrono::steady_clock::now();
  issue(step, context);
  backend_.wait();
  step.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::vector<UnitTime> RankExecutor::unit_times() const {
  std::vector<UnitTime> times;
  for (const Step& step : steps_) {
    if (step.kernel || step.collective) times.push_back({step.first, step.end, step.ops, step.queue, step.ms});
  }
  return times;
}

// A run of steps_.
class RankExecutor::StepRange final : public Segment {
 public:
  StepRange(RankExecutor& executor, size_t id, std::span<Step> steps, const StepContext& context)
      : executor_(executor), id_(id), steps_(steps), context_(context) {}

  size_t id() const override { return id_; }
  std::span<const Step> steps() const { return steps_; }

  void issue() override {
    for (Step& step : steps_) {
      executor_.position_.store(step.first, std::memory_order_relaxed);
      if (executor_.times_units_) {
        executor_.issue_timed(step, context_);
      } else {
        executor_.issue(step, context_);
      }
      if (!executor_.observer_) continue;
      executor_.backend_.wait();
      executor_.observer_(executor_.rank(), step.first);
    }
    // What is waited for from here on may be any of them.
    executor_.position_.store(-1, std::memory_order_relaxed);
  }

 private:
  RankExecutor& executor_;
  size_t id_;
  std::span<Step> steps_;
  const StepContext& context_;
};

// Returns the plan step of the first named output that is not finite.
std::optional<int> RankExecutor::run_segment(StepRange segment) {
  backend_.run(segment, /*is_observed=*/observer_ || times_units_);
  bool makes_output = false;
  for (const Step& step : segment.steps()) {
    if (step.counted != nullptr) *step.counted += step.received;
    makes_output = makes_output || std::any_of(step.kept.begin(), step.kept.end(),
                                               [&](const Kept& kept) { return is_output(kept.tensor); });
  }
  if (!makes_output) return std::nullopt;
  backend_.wait();
  for (const Step& step : segment.steps()) {
    for (const Kept& kept : step.kept) {
      if (is_output(kept.tensor) && !std::isfinite(output_value(kept.tensor))) return step.first;
    }
  }
  return std::nullopt;
}

std::optional<int> RankExecutor::run_step(const StepContext& context) {
  try {
    backend_.begin_step(context);
    // Weights change only after the outputs have been looked at.
    std::optional<int> stopped = run_segment({*this, /*id=*/0, std::span(steps_).first(first_change_), context});
    if (!stopped) stopped = run_segment({*this, /*id=*/1, std::span(steps_).subspan(first_change_), context});
    if (stopped) return stopped;
  } catch (...) {
    rethrow_with_place(context);
  }
  return std::nullopt;
}

// The first of the tensors that is not finite.
std::optional<NonFinite> RankExecutor::look_at(int step, const std::vector<int>& tensors) const {
  for (int tensor : tensors) {
    if (!is_float(plan_.tensors[static_cast<size_t>(tensor)].type.dtype)) continue;
    if (!is_finite(read(tensor))) return NonFinite{step, tensor};
  }
  return std::nullopt;
}

std::optional<NonFinite> RankExecutor::find_non_finite(const StepContext& context, int end) {
  std::optional<NonFinite> first;
  std::vector<int> persistent;
  for (size_t t = 0; t < plan_.tensors.size(); ++t) {
    if (persists(plan_.tensors[t].role)) persistent.push_back(static_cast<int>(t));
  }
  try {
    first = look_at(-1, persistent);
    backend_.begin_step(context);
    // All ranks go on to the end, since peers wait for this one's collectives.
    for (Step& step : steps_) {
      if (step.first >= end) break;
      position_.store(step.first, std::memory_order_relaxed);
      issue(step, context);
      position_.store(-1, std::memory_order_relaxed);
      for (int i = step.first; i < step.end && !first; ++i) {
        // What lies inside a kernel of several steps may be nowhere.
        if (i + 1 == step.end) first = look_at(i, plan_.steps[static_cast<size_t>(i)].results);
      }
    }
    backend_.wait();
  } catch (...) {
    rethrow_with_place(context);
  }
  return first;
}

void RankExecutor::rethrow_with_place(const StepContext& context) const {
  std::string place = fmt::format("rank {}, training step {}", rank(), context.step);
  if (position() >= 0) place += ", " + describe_step(plan_, position());
  rethrow_at(place);
}

}  // namespace tpc
